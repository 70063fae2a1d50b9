"""Locks a process down and then becomes the program it was started for.

Runs as a script of its own, because limits must hold before the program's first instruction, and
code between fork and exec is not safe in a process with threads. Uses the standard library only,
and nothing of this package.

    python launcher.py LIMITS COMMAND [ARGUMENT...]

``LIMITS`` is a JSON object: ``data_bytes``, ``cpu_seconds``, ``file_bytes``, ``parent`` (the pid that
must be the parent), and ``landlock``, either null or ``{"execute": [...], "read": [...], "write": [...]}``.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
# How many file system rights each version of Landlock knows; later ones know as many as the last.
_KNOWN_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_ALL_RIGHTS = 16


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def limit_resources(limits: dict[str, Any]) -> None:
    """Set the limits that the kernel keeps; they only ever go down."""
    wanted = (
        (resource.RLIMIT_DATA, limits["data_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_CORE, 0),
    )
    for name, value in wanted:
        _, hard = resource.getrlimit(name)
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (ceiling, ceiling))


def die_with(parent: int, libc: Any) -> None:
    """Ask to be killed when the parent goes away, and go now if it has gone already."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def landlock_version(libc: Any) -> int:
    """Which version of Landlock the kernel offers; 0 or less for none."""
    return libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)


def restrict(paths: dict[str, list[str]], libc: Any) -> bool:
    """Take away every file, TCP port and foreign process that is not listed; False where that is not possible."""
    version = landlock_version(libc)
    if version < 1:
        return False
    rights = (1 << _KNOWN_RIGHTS.get(version, _ALL_RIGHTS)) - 1
    ruleset = _Ruleset(rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else (16 if version >= 4 else 8)
    fd = libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    if fd < 0:
        return False
    for path in paths["execute"]:
        _allow(fd, path, _EXECUTE | _READ_FILE | _READ_DIR, libc)
    for path in paths["read"]:
        _allow(fd, path, _READ_FILE | _READ_DIR, libc)
    for path in paths["write"]:
        _allow(fd, path, rights & ~_EXECUTE, libc)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = libc.syscall(_RESTRICT_SELF, fd, 0) == 0
    os.close(fd)
    return done


def _allow(ruleset: int, path: str, rights: int, libc: Any) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        rule = _PathRule(rights if os.path.isdir(path) else rights & _FILE_RIGHTS, fd)
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(fd)


def main(arguments: list[str]) -> None:
    """Apply the limits and replace this process by the command."""
    limits: dict[str, Any] = json.loads(arguments[0])
    command = arguments[1:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        die_with(limits["parent"], libc)
        if limits["landlock"] is not None:
            restrict(limits["landlock"], libc)
    limit_resources(limits)
    # Python sets this one for itself where there is no locale.
    os.environ.pop("LC_CTYPE", None)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
