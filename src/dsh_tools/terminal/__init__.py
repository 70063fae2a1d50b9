"""Cards in a terminal: how a call looks before it runs and after it settled.

``render_call`` and ``render_result`` return cards that any rich console prints; ``make_console`` gives one that
suits them. Nothing that a tool returns can command the terminal.
"""

from .approval import TerminalAnswerer, TerminalApprovalConfig, TerminalApprovalPlugin
from .console import make_console
from .layout import Card, Limits
from .lines import LineReader
from .live import LiveView
from .neutral import plain
from .render import render_call, render_result
from .timeline import render_timeline

__all__ = [
    "Card",
    "Limits",
    "LineReader",
    "LiveView",
    "TerminalAnswerer",
    "TerminalApprovalConfig",
    "TerminalApprovalPlugin",
    "make_console",
    "plain",
    "render_call",
    "render_result",
    "render_timeline",
]
