"""Running a program to its end, so that nothing of it is left: for the tools that start processes.

:class:`Supervisor` starts a program in a session of its own, hands on what it writes, and stops it, and
everything it has started, when its time is up or it is told to. :func:`attend` runs a supervisor in a thread and
waits for it on the event loop, whatever cancels the wait.
"""

from __future__ import annotations

from .attend import attend
from .family import Family
from .supervisor import Launch, Outcome, OutputSink, Supervisor

__all__ = ["Family", "Launch", "Outcome", "OutputSink", "Supervisor", "attend"]
