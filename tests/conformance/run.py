"""Run golden cases: ``python -m tests.conformance.run [DIR] [-v]``.

Prints one line per failing case (with ``-v`` also one per skipped case) and closes with
``N passed, N failed, N skipped``. The exit status is 1 when a case failed or none was found.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from tests.conformance.cases import DEFAULT_DIR, RUNNERS, load, run_case


def main(arguments: list[str] | None = None) -> int:
    """Run the cases of a folder and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description="Run golden cases.")
    parser.add_argument("dir", nargs="?", type=Path, default=Path(os.environ.get("DSH_VECTORS") or DEFAULT_DIR))
    parser.add_argument("-v", "--verbose", action="store_true", help="name skipped cases and why they are skipped")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for path in sorted(options.dir.glob("*.json")):
        if path.stem not in RUNNERS:
            print(f"{path.name} is left out: its name is none of {', '.join(RUNNERS)}", file=sys.stderr)
    for kind, cases in load(options.dir).items():
        for case in cases:
            outcome = run_case(kind, case)
            counts[outcome.status] += 1
            if outcome.status == "failed" or (outcome.status == "skipped" and options.verbose):
                print(f"{outcome.status.upper()} {kind} {outcome.id}: {outcome.detail}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
