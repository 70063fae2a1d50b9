"""Ctrl-C at any moment: the command ends with a status, and prints no trace."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# SIGINT in front of the import with a given number; what is not imported any more then is interrupted at the end.
AT_AN_IMPORT = """
import signal, sys
from dsh_tools.cli import main

class Interrupting:
    left = int(sys.argv.pop(1))

    def find_spec(self, name, path=None, target=None):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""
# The moments before this are the interpreter's: it prints a trace by itself, whatever it is going to run.
AT_A_MOMENT = """
from dsh_tools.cli import main
from dsh_tools.cli.interrupts import end_at_interrupt
end_at_interrupt()
print(end=".", flush=True)
main()
"""
SAYS_WHEN_IT_IS_DONE = """
import atexit, time
def wait():
    print("done", flush=True)
    time.sleep(60)
atexit.register(wait)
from dsh_tools.cli import main
main()
"""
BEHIND_NOHUP = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from dsh_tools.cli import main
main()
"""


def start(program: str, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [1, 2, 5, 20, 60, 120, 240, 480])
def test_ctrl_c_while_the_verb_is_imported_is_silent(tmp_path: Path, number: int) -> None:
    running = start(AT_AN_IMPORT, str(number), "tools", cwd=tmp_path)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    ("arguments", "seconds", "steps"), [(("tools",), 0.5, 20), (("demo", "--yes"), 1.5, 12)], ids=["tools", "demo"]
)
def test_ctrl_c_at_any_moment_prints_no_trace(
    tmp_path: Path, arguments: tuple[str, ...], seconds: float, steps: int
) -> None:
    for step in range(steps):
        running = start(AT_A_MOMENT, *arguments, cwd=tmp_path)
        assert running.stdout is not None
        assert running.stdout.read(1) == "."
        time.sleep(seconds * step / steps)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        # Its own status, if it was faster; at the very end the interpreter lets the signal kill it.
        assert running.returncode in (130, 0, -signal.SIGINT), err
        assert err == ""


def test_ctrl_c_after_the_verb_is_silent(tmp_path: Path) -> None:
    running = start(SAYS_WHEN_IT_IS_DONE, "tools", cwd=tmp_path)
    assert running.stdout is not None
    while running.stdout.readline() != "done\n":
        pass
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, "", "")


def test_ctrl_c_is_ignored_where_it_was(tmp_path: Path) -> None:
    program = BEHIND_NOHUP.replace("main()", "import os; os.kill(os.getpid(), signal.SIGINT); main()")
    running = start(program, "tools", cwd=tmp_path)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    assert "No tools are registered" in out
