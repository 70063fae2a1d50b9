"""Tools as an SDK: the model writes a program, and every call in it goes through the whole pipeline.

:class:`CodeModePlugin` offers the tool ``run_code`` and the prompt section that declares the other
tools as TypeScript or Python. ``bridge.py`` is where a program's calls enter the pipeline.
"""

from __future__ import annotations

from .bridge import DispatchError
from .journal import DurableProgram, JournalStep, ProgramFacts, ProgramJournal, program_facts, schema_digest
from .journaled import DIVERGED
from .plugin import CodeModePlugin, check_presentable
from .recording import DispatchRecorder
from .render import failure_message, pretty_json, render_run
from .run_code import OUTPUT_SCHEMA
from .section import CODE_ONLY, CODE_ONLY_ORDER, SDK_ORDER, render_section

__all__ = [
    "CODE_ONLY",
    "CODE_ONLY_ORDER",
    "DIVERGED",
    "OUTPUT_SCHEMA",
    "SDK_ORDER",
    "CodeModePlugin",
    "DispatchError",
    "DispatchRecorder",
    "DurableProgram",
    "JournalStep",
    "ProgramFacts",
    "ProgramJournal",
    "check_presentable",
    "failure_message",
    "pretty_json",
    "program_facts",
    "render_run",
    "render_section",
    "schema_digest",
]
