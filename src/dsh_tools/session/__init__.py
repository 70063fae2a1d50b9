"""What happened, durably: session logs, the stores behind them, and what is read back from them.

``EventLog`` is one session's log, ``Sessions`` all of them; a store is anything with the methods
of ``SessionStore``. The event records are in ``dsh_tools.session.events``. The other modules are
private to this package.

Mount the plugin and say where sessions are kept::

    ctx.plugin(SessionsPlugin(), {"path": "sessions.sqlite"})
    log = await ctx.sessions.create(cwd="/srv/project")

**A log** only grows. ``append`` checks an event, freezes it, and returns it at once; storing goes on behind it, all
events of one tick of the loop in one transaction. ``await log.flush()`` returns once all that was appended before is
durable, and raises if it could not be made so. :class:`DurabilityPlugin` flushes before a tool's body begins, so that
no body runs whose call a crash could lose.

**What a model sees** is derived: ``log.derive_messages()`` folds the events into a history, replacements included.
:func:`replay_calls` gives each call with its result, for cards, without running a tool.

**After a crash** ``ctx.sessions.open(id)`` takes the right to write, which one process has at a time, and repairs the
log: a call without a result gets one that says whether it may have run, and an open turn is closed. ``view(id)`` reads
and repairs nothing.

**Waiting for a person.** With :class:`JournalPlugin` the calls of an agent, and of the programs it runs, can stop for a
person: their turn ends as ``Waiting``, and its calls stay pending. ``open(id, resume=True)`` leaves calls that can go
on pending after a crash, too; ``agent.resume()`` goes on with them.

**Stores** are SQLite (one file, written ahead), PostgreSQL (``store: postgres`` with ``conninfo``; extra
``[postgres]``) and memory. ``synchronous: normal`` survives the death of the process but not a loss of power.

**Elsewhere.** :func:`write_jsonl` and :func:`read_jsonl` write and read a session as JSON lines, and
``ctx.sessions.import_session`` keeps one; on the command line that is ``dsh-tools session export`` and ``import``.
"""

from __future__ import annotations

from . import events
from .call_records import (
    TOOL_RECORD,
    CallEnding,
    CallRecord,
    GivenApproval,
    HowStopped,
    Measured,
    ReturnedValue,
    WhatRan,
)
from .durability import DurabilityPlugin, checkpoint
from .durable import RESUME_REFUSED, DurableModelCall, JournalPlugin, JournalService, dispatches_since
from .events import Event, Replace, SessionHeader
from .held_files import is_held
from .journal import Journal, JournalContents, JournalRun, ParkedCall, journal_of, new_run
from .jsonl import dump_jsonl, load_jsonl, read_jsonl, write_jsonl
from .log import EventLog
from .memory import MemoryStore
from .open_end import OpenCall, OpenDispatch, OpenEnd
from .pending import PendingMessages
from .plugin import SessionsConfig, SessionsPlugin, open_store
from .postgres import PostgresStore
from .protocol import EventDraft, SessionLog
from .record_reader import call_records
from .recorder import (
    Recorder,
    RecorderPlugin,
    log_of,
    record_call,
    record_dispatch,
    record_dispatch_start,
    record_result,
    record_skipped,
)
from .repair import TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN, repair_drafts, repair_log
from .replay import ReplayedCall, replay_calls
from .sessions import SESSION_EVENT, SESSION_OPEN, Sessions
from .sqlite import SqliteStore
from .sqlite_file import is_sqlite_store
from .store import SessionStore, SessionSummary, SessionWriter, StoredSession
from .vocabulary import EventVocabulary

__all__ = [
    "RESUME_REFUSED",
    "SESSION_EVENT",
    "SESSION_OPEN",
    "TOOL_NOT_STARTED",
    "TOOL_OUTCOME_UNKNOWN",
    "TOOL_RECORD",
    "CallEnding",
    "CallRecord",
    "DurabilityPlugin",
    "DurableModelCall",
    "Event",
    "EventDraft",
    "EventLog",
    "EventVocabulary",
    "GivenApproval",
    "HowStopped",
    "Journal",
    "JournalContents",
    "JournalPlugin",
    "JournalRun",
    "JournalService",
    "Measured",
    "MemoryStore",
    "OpenCall",
    "OpenDispatch",
    "OpenEnd",
    "ParkedCall",
    "PendingMessages",
    "PostgresStore",
    "Recorder",
    "RecorderPlugin",
    "Replace",
    "ReplayedCall",
    "ReturnedValue",
    "SessionHeader",
    "SessionLog",
    "SessionStore",
    "SessionSummary",
    "SessionWriter",
    "Sessions",
    "SessionsConfig",
    "SessionsPlugin",
    "SqliteStore",
    "StoredSession",
    "WhatRan",
    "call_records",
    "checkpoint",
    "dispatches_since",
    "dump_jsonl",
    "events",
    "is_held",
    "is_sqlite_store",
    "journal_of",
    "load_jsonl",
    "log_of",
    "new_run",
    "open_store",
    "read_jsonl",
    "record_call",
    "record_dispatch",
    "record_dispatch_start",
    "record_result",
    "record_skipped",
    "repair_drafts",
    "repair_log",
    "replay_calls",
    "write_jsonl",
]
