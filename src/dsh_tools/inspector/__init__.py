"""The inspector: a page in the browser that shows sessions, approvals, timelines and tools.

Mount :class:`InspectorPlugin` on an application to watch it live and answer its questions; give the plugin an
:func:`open_source` to look at a session file that others write. The page needs the extra ``[inspect]``; what reads a
log (:func:`timeline_of`, :func:`timeline_svg`, :class:`StageTimesPlugin`) does not. The other modules are private
to this package.
"""

from __future__ import annotations

from .config import InspectorConfig
from .plugin import InspectorPlugin
from .service import Inspector
from .source import LiveSource, Source, StoreSource, is_store, open_source
from .stages import STAGES, StageTimesPlugin
from .svg import timeline_svg
from .timeline import CallTimes, Span, StepTimes, timeline_of
from .waiting import Resume

__all__ = [
    "STAGES",
    "CallTimes",
    "Inspector",
    "InspectorConfig",
    "InspectorPlugin",
    "LiveSource",
    "Resume",
    "Source",
    "Span",
    "StageTimesPlugin",
    "StepTimes",
    "StoreSource",
    "is_store",
    "open_source",
    "timeline_of",
    "timeline_svg",
]
