"""Tools from the working folder find what is in it, whenever and wherever their bodies run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("dsh-tools")

TOOLS = '''
from dsh_tools import tool

@tool(isolation="process")
def crunch(x: int) -> int:
    """Run in a process of its own."""
    from beside import double
    return double(x)

@tool
def lazy(x: int) -> int:
    """Import when called."""
    from beside import double
    return double(x)
'''


@pytest.mark.parametrize("name", ["crunch", "lazy"])
def test_a_body_imports_from_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "mytools.py").write_text(TOOLS)
    (tmp_path / "beside.py").write_text("def double(x: int) -> int:\n    return 2 * x\n")
    (tmp_path / "dsh.yaml").write_text(f"sessions: {{store: memory}}\nplugins: [mytools:{name}]\n")
    done = subprocess.run(
        [str(COMMAND), "call", name, "--args", '{"x": 21}', "--json"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"value": 42' in done.stdout
