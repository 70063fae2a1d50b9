"""Bodies in processes of their own: each call gets a process, which is really killed when the call has to stop.

``service.py`` runs the calls, ``worker.py`` is a process as the host sees it. ``keeper.py`` is the program of that
process: it splits into the worker, which goes on in ``body.py``, and a keeper that waits beside it and ends it.
"""

from __future__ import annotations

from .service import BodyProcesses

__all__ = ["BodyProcesses"]
