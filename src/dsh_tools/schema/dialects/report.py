"""What an export has to say besides the tools themselves."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ExportNote", "Inexpressible", "Report"]


@dataclass(frozen=True, slots=True)
class ExportNote:
    """One remark about one tool's export.

    Attributes:
        tool: the tool's own name.
        path: where in its parameters, ``""`` for the whole.
        reason: what was changed, or why the tool was refused.
    """

    tool: str
    path: str
    reason: str

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f'tool "{self.tool}"{where}: {self.reason}'


class Inexpressible(Exception):
    """The dialect cannot say this part of a schema; the exporter turns it into a refusal or a fallback."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Report:
    """Collects the remarks on one tool; a loss is an error unless losses were allowed."""

    __slots__ = ("lossy", "notes", "tool")

    def __init__(self, tool: str, *, lossy: bool) -> None:
        self.tool = tool
        self.lossy = lossy
        self.notes: list[ExportNote] = []

    def note(self, path: str, reason: str) -> None:
        """Remark on a conversion that keeps the meaning."""
        self.notes.append(ExportNote(self.tool, path, reason))

    def lose(self, path: str, reason: str, *, instead: str = "left to the validator") -> None:
        """Remark on a loss, and on what is done ``instead``, where losses are allowed.

        Raises:
            Inexpressible: losses are not allowed.
        """
        if not self.lossy:
            raise Inexpressible(path, reason)
        self.note(path, f"{reason}; {instead}")
