"""What does the tool layer itself cost a call?

    make bench WHAT=call_overhead [ARGS="--rounds 40 --seconds 0.1 --json out.json"]

A no-op async tool ``add(a: int, b: int) -> int``, from the model's JSON text to the final result, here and in six
other packages. Every party runs in a process of its own. Rounds are short and interleaved (ours, a peer, ours, the
next peer, and so on); everybody has as many, and the best of each counts. The last line is the ratio of calls per
second, ours to the fastest peer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS_PYTHON = HERE.parents[1] / ".venv-bench" / "bin" / "python"

OURS = ["dsh-tools", "dsh-tools, 5 listeners on each event", "dsh-tools, 1,000 registered tools"]
PEERS = [
    "openai-agents",
    "pydantic-ai ToolManager",
    "mcp server side",
    "smolagents",
    "fastmcp server side",
    "langchain-core",
]
# The result of adding 40 and 2, wherever a party puts it.
EXPECTED = "42"


@dataclass
class Party:
    """A running child and the best figures seen of it, in microseconds a call."""

    name: str
    process: subprocess.Popen[str]
    best: dict[int, float] = field(default_factory=dict)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended early with status {self.process.wait()}")
        return json.loads(line)

    def measure(self, seconds: float, parallel: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"seconds": seconds, "parallel": parallel}) + "\n")
        self.process.stdin.flush()
        figure = self.answer()["us"]
        self.best[parallel] = min(figure, self.best.get(parallel, figure))


def start(python: str, module: str, name: str) -> Party:
    command = [python, str(HERE / "child.py"), module, name]
    party = Party(name, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    result = party.answer()["result"]
    if EXPECTED not in result:
        raise SystemExit(f"{name} gave a wrong result: {result}")
    return party


def interleaved(ours: list[Party], peers: list[Party], rounds: int, seconds: float, parallel: int) -> None:
    order: list[Party] = []
    for index, peer in enumerate(peers):
        order += [*ours[index : index + 1], peer]
    for shift in range(rounds):
        start = shift % len(order)  # nobody always follows the same neighbour's load
        for party in [*order[start:], *order[:start]]:
            party.measure(seconds, parallel)


def report(ours: list[Party], peers: list[Party]) -> float:
    base = ours[0].best
    print(f"{'':40}{'µs a call':>12}{'calls/s':>12}{'100 parallel, µs a call':>26}{'times ours':>12}")
    for party in [*ours, *sorted(peers, key=lambda peer: peer.best[1])]:
        one, hundred = party.best[1], party.best[100]
        print(f"{party.name:40}{one:12.1f}{1e6 / one:12,.0f}{hundred:26.1f}{one / base[1]:12.2f}")
    fastest = min(peers, key=lambda peer: peer.best[1])
    parallel = min(peers, key=lambda peer: peer.best[100])
    print()
    print(f"fastest peer: {fastest.name}; with 100 parallel calls: {parallel.name}")
    print(f"ratio_vs_best_peer_100_parallel {parallel.best[100] / base[100]:.2f}")
    print(f"ratio_1000_tools_vs_1 {ours[2].best[1] / base[1]:.2f}")
    return fastest.best[1] / base[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="rounds for each party (default 20)")
    parser.add_argument("--seconds", type=float, default=0.06, help="seconds a round takes (default 0.06)")
    parser.add_argument("--peers-python", default=str(PEERS_PYTHON), help="interpreter that has the peers")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()

    parties: list[Party] = []
    try:
        for name in OURS:
            parties.append(start(sys.executable, "ours", name))
        for name in PEERS:
            parties.append(start(options.peers_python, "peers", name))
        ours, peers = parties[: len(OURS)], parties[len(OURS) :]
        for parallel in (1, 100):
            interleaved(ours, peers, options.rounds, options.seconds, parallel)
        ratio = report(ours, peers)
    finally:
        for party in parties:
            party.process.kill()
            party.process.communicate()
    if options.json:
        figures = {party.name: {f"us_parallel_{k}": v for k, v in party.best.items()} for party in parties}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(f"ratio_vs_best_peer {ratio:.2f}")


if __name__ == "__main__":
    main()
