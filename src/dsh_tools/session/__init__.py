"""What happened, durably: session logs, the stores behind them, and what is read back from them.

``EventLog`` is one session's log, ``Sessions`` all of them; a store is anything with the methods
of ``SessionStore``. The event records are in ``dsh_tools.session.events``. The other modules are
private to this package.
"""

from __future__ import annotations

from . import events
from .durability import DurabilityPlugin, checkpoint
from .events import Event, Replace, SessionHeader
from .jsonl import dump_jsonl, load_jsonl, read_jsonl, write_jsonl
from .log import EventLog
from .memory import MemoryStore
from .pending import PendingMessages
from .plugin import SessionsConfig, SessionsPlugin, open_store
from .postgres import PostgresStore
from .protocol import EventDraft, SessionLog
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
from .store import SessionStore, SessionSummary, SessionWriter, StoredSession
from .vocabulary import EventVocabulary

__all__ = [
    "SESSION_EVENT",
    "SESSION_OPEN",
    "TOOL_NOT_STARTED",
    "TOOL_OUTCOME_UNKNOWN",
    "DurabilityPlugin",
    "Event",
    "EventDraft",
    "EventLog",
    "EventVocabulary",
    "MemoryStore",
    "PendingMessages",
    "PostgresStore",
    "Recorder",
    "RecorderPlugin",
    "Replace",
    "ReplayedCall",
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
    "checkpoint",
    "dump_jsonl",
    "events",
    "load_jsonl",
    "log_of",
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
