"""The pytest side of :mod:`dsh_tools.testing.policy`: a fixture, and a report at the end of a run.

Name it in a ``conftest.py``::

    pytest_plugins = ["dsh_tools.testing.pytest_policy"]

``policy_check`` is ``assert_verdicts``, and collects what all tests of the run cover. With ``--policy-coverage`` the
run ends with a report on every rule; with ``--require-policy-coverage`` it fails if some rule decided about no case,
or if no rule was seen at all.

Under ``pytest -n`` (pytest-xdist) each process collects what its tests cover; the one that started them adds it up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest

from .policy import CaseLike, Coverage, assert_verdicts

if TYPE_CHECKING:
    from ..kernel import Context

__all__ = ["PolicyCheck", "policy_check"]

_COVERAGE = pytest.StashKey[Coverage]()
_OUTPUT: Final = "dsh_tools_policy_coverage"
"""The name of a process's coverage in what it sends to the one that started it."""


class PolicyCheck:
    """Checks tables, and collects which rules they cover."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage

    async def __call__(self, ctx: Context, cases: Iterable[CaseLike], *, agent: Any = None) -> Coverage:
        """See :func:`dsh_tools.testing.policy.assert_verdicts`; returns what this table covers."""
        covered = await assert_verdicts(ctx, cases, agent=agent)
        self.coverage.merge(covered)
        return covered


@pytest.fixture
def policy_check(pytestconfig: pytest.Config) -> PolicyCheck:
    """Check tables of calls and verdicts; what they cover is added up over the run."""
    return PolicyCheck(pytestconfig.stash[_COVERAGE])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("dsh-tools")
    group.addoption("--policy-coverage", action="store_true", help="report which policy rules the tests cover")
    group.addoption(
        "--require-policy-coverage", action="store_true", help="fail if a policy rule decided about no case"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to collect."""
    config.stash[_COVERAGE] = Coverage()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run where rules are required to be covered, and are not."""
    coverage = session.config.stash[_COVERAGE]
    # Only a process that pytest-xdist has started has this; what it covers is a part of the run.
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = coverage.dump()
        return
    if (
        (coverage.uncovered or not coverage.rules)
        and session.config.getoption("--require-policy-coverage")
        and session.exitstatus == 0
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in what a process of pytest-xdist has covered; one that died has sent nothing."""
    output: dict[str, Any] = getattr(node, "workeroutput", {})
    if _OUTPUT in output:
        node.config.stash[_COVERAGE].merge(Coverage.load(output[_OUTPUT]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the report."""
    coverage = config.stash[_COVERAGE]
    if config.getoption("--policy-coverage") or config.getoption("--require-policy-coverage"):
        terminalreporter.section("policy rules")
        terminalreporter.write_line(coverage.report())
