"""The services of this package, as typed properties of every context (D17).

Only type checkers look at the types, so that the kernel depends on nothing above it (D35).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..agent import Agents
    from ..code_runtime import CodeRuntime
    from ..pipeline.service import Tools
    from ..services.approval import Approval
    from ..services.jobs import Jobs
    from ..services.spill import SpillStore
    from ..services.system_prompt import SystemPrompt
    from ..session import SessionLog, Sessions

__all__ = ["FirstPartyServices"]


class FirstPartyServices(ABC):
    """One property for each service of this package; each raises where its service is missing.

    Where a service may be absent, ``ctx.get("name")`` gives it or None.
    """

    __slots__ = ()

    @abstractmethod
    def require(self, key: str) -> object:
        """Return a service, or raise ``MissingServiceError``."""

    @property
    def tools(self) -> Tools:
        """The tool registry and pipeline, bound to this context."""
        return cast("Tools", self.require("tools"))

    @property
    def system_prompt(self) -> SystemPrompt:
        """Prompt sections, variables and contexts."""
        return cast("SystemPrompt", self.require("system_prompt"))

    @property
    def approval(self) -> Approval:
        """Asks a person before a call runs."""
        return cast("Approval", self.require("approval"))

    @property
    def jobs(self) -> Jobs:
        """Background jobs."""
        return cast("Jobs", self.require("jobs"))

    @property
    def code_runtime(self) -> CodeRuntime:
        """Runs untrusted programs."""
        return cast("CodeRuntime", self.require("code_runtime"))

    @property
    def session(self) -> SessionLog:
        """The log of the session that this context belongs to."""
        return cast("SessionLog", self.require("session"))

    @property
    def sessions(self) -> Sessions:
        """All sessions, and the store behind them."""
        return cast("Sessions", self.require("sessions"))

    @property
    def agents(self) -> Agents:
        """The agents that are alive."""
        return cast("Agents", self.require("agents"))

    @property
    def spill(self) -> SpillStore:
        """Keeps texts that are too long for a model."""
        return cast("SpillStore", self.require("spill"))
