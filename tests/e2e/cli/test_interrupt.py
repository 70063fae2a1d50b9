"""Ctrl-C before the command has begun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import signal, sys
from dsh_tools.cli import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "dsh_tools.cli.demo":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
main()
"""


def test_ctrl_c_while_the_verbs_are_imported_is_silent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "tools"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
