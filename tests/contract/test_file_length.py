"""A module fits a sitting: 400 lines at most. Split by noun."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
LIMIT = 400


def test_no_module_is_too_long():
    lengths = {
        str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.ts"), *SOURCE.rglob("*.js")]
    }
    assert {name: lines for name, lines in lengths.items() if lines > LIMIT} == {}
