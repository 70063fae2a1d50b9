"""What does judging and copying a JSON value cost?

    make bench WHAT=validate [ARGS="--rounds 40 --json out.json"]

Ours beside the validators that people use, on the same values in one process, and beside other ways to copy a value.
Rounds are short and interleaved; the best round of each party counts. The last lines are the ratios that this package
holds itself to; the exit status is 1 when one is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import site
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# The peers' packages live in a virtualenv of their own; ours come first.
for folder in (HERE.parents[1] / ".venv-bench" / "lib").glob(
    f"python{sys.version_info[0]}.{sys.version_info[1]}/site-*"
):
    site.addsitedir(str(folder))

import peers  # noqa: E402
import subject  # noqa: E402

from dsh_tools.json_value import parse_json, snapshot, thaw, to_json_text  # noqa: E402
from dsh_tools.schema import compile_value  # noqa: E402

DEEP = 10_000
OURS = "dsh-tools"
SECONDS = 0.004


@dataclass
class Table:
    """One question: parties by name, each with a call to time."""

    title: str
    calls: dict[str, Callable[[], Any]]
    best: dict[str, float] = field(default_factory=dict)

    def measure(self, rounds: int) -> None:
        counts = {name: _calls_in(call, SECONDS) for name, call in self.calls.items()}
        for _ in range(rounds):
            for name, call in self.calls.items():
                took = _time(call, counts[name]) / counts[name] * 1e6
                self.best[name] = min(took, self.best.get(name, took))

    def show(self) -> None:
        print(f"\n{self.title}")
        mine = self.best[OURS]
        for name, micros in sorted(self.best.items(), key=lambda pair: pair[1]):
            print(f"  {name:24} {micros:10.2f} µs   {micros / mine:8.2f} × ours")


def _time(call: Callable[[], Any], count: int) -> float:
    # Without the cycle collector, as `timeit` does it: it would charge one party for another's garbage.
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start
    finally:
        gc.enable()


def _calls_in(call: Callable[[], Any], seconds: float) -> int:
    count = 1
    while _time(call, count) < seconds / 4:
        count *= 2
    return count


def validation(title: str, kind: str, spec: Any, value: Any, *, valid: bool) -> Table:
    schema = compile_value(spec)
    frozen = snapshot(value)
    calls: dict[str, Callable[[], Any]] = {OURS: lambda: schema.check(frozen, "")}
    assert (calls[OURS]() == []) == valid
    for name, check in peers.validators(kind, thaw(schema.json)).items():
        calls[name] = lambda check=check: check(value)
    return Table(title, calls)


def copying() -> Table:
    value = subject.typical()
    calls: dict[str, Callable[[], Any]] = {OURS: lambda: snapshot(value)}
    for name, copy in peers.copies().items():
        calls[name] = lambda copy=copy: copy(value)
    return Table("Copying the typical object (ours also checks and freezes it)", calls)


def reading() -> Table:
    small, decode = '{"a":1,"b":2}', peers.msgspec.json.decode
    calls: dict[str, Callable[[], Any]] = {
        OURS: lambda: parse_json(small),
        "msgspec.json.decode": lambda: decode(small),
        "json.loads": lambda: json.loads(small),
    }
    return Table("Reading two small arguments from text (ours freezes them)", calls)


def deep_nests() -> list[str]:
    """Each party in a process of its own; some end with it."""
    lines = [f"\nA {DEEP:,}-level nest"]
    listed = subprocess.run(
        [sys.executable, "-c", "import deep; print(*deep.PARTIES, sep='\\n')", "", str(DEEP)],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        program = f"import site, runpy, sys; [site.addsitedir(p) for p in {sys.path!r} if 'site-packages' in p]; "
        program += f"sys.argv = ['deep.py', {name!r}, '{DEEP}']; runpy.run_path('deep.py', run_name='__main__')"
        done = subprocess.run([sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, timeout=120)
        if done.returncode == 0:
            micros, _, outcome = done.stdout.strip().partition("\t")
            lines.append(f"  {name:30} {float(micros):10.0f} µs   {outcome}")
        else:
            reason = f"killed by signal {-done.returncode}" if done.returncode < 0 else done.stderr.strip()[-100:]
            lines.append(f"  {name:30} {'':10}      {reason}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each party (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()

    typical = subject.typical()
    print(f"typical object: {len(to_json_text(typical))} bytes; list: 200 objects; best of {options.rounds} rounds")
    if peers.MISSING:
        print(f"not installed, so left out: {', '.join(peers.MISSING)}")
    valid = validation("A valid typical object", "typical", subject.TYPICAL, typical, valid=True)
    invalid = validation(
        "An invalid typical object, message included", "typical", subject.TYPICAL, subject.wrong(), valid=False
    )
    items = [subject.item(number) for number in range(200)]
    listing = validation("A list of 200 objects", "list", subject.LIST, items, valid=True)
    union = validation("A oneOf of 3", "union", subject.FILTER, typical["filter"], valid=True)
    copied, read = copying(), reading()
    tables = [valid, invalid, listing, union, copied, read]
    for table in tables:
        table.measure(options.rounds)
        table.show()
    print(*deep_nests(), sep="\n")

    bars = [
        ("valid: ours / jsonschema-rs", valid.best[OURS] / valid.best["jsonschema-rs"], 1.5, False),
        ("invalid: pydantic-core / ours", invalid.best["pydantic-core"] / invalid.best[OURS], 1.0, True),
        ("copy: deepcopy / ours", copied.best["copy.deepcopy"] / copied.best[OURS], 2.5, True),
    ]
    print("\nBars")
    missed = 0
    for name, ratio, bar, at_least in bars:
        holds = ratio >= bar if at_least else ratio <= bar
        missed += not holds
        limit = f"{'at least' if at_least else 'at most'} {bar}"
        print(f"  {name:32} {ratio:6.2f}   {limit:12}   {'holds' if holds else 'MISSED'}")
    if options.json:
        options.json.write_text(json.dumps({table.title: table.best for table in tables}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
