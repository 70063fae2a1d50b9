"""Why a provider's cached prefix was lost: digests of a prompt's parts, and what differs first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from ...json_value import to_json_text

__all__ = ["Fingerprint", "PromptChange", "explain_change", "fingerprint"]


_SHORT = 16


class Fingerprint(msgspec.Struct, frozen=True, rename="camel"):
    """A prompt's prefix by its digests; small enough to keep with every request.

    Parameters:
        digest: of the whole prefix; equal digests mean equal bytes.
        sections: name and digest of each section, in order.
        tools: name and digest of each tool, in order.
    """

    digest: str
    sections: tuple[tuple[str, str], ...]
    tools: tuple[tuple[str, str], ...]


class PromptChange(msgspec.Struct, frozen=True):
    """The first part of a prompt that is not as it was."""

    kind: Literal["section", "tool"]
    name: str
    what: Literal["added", "removed", "changed", "moved"]

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}" was {self.what}'


def fingerprint(sections: Iterable[tuple[str, str]], tools: Iterable[tuple[str, Any]]) -> Fingerprint:
    """Return the fingerprint of rendered sections and of tools' schemas, in their order.

    Key order counts, unlike in a digest of arguments: a provider's cache compares bytes.
    """
    section_digests = tuple((name, _digest(text)[:_SHORT]) for name, text in sections)
    tool_digests = tuple((name, _digest(to_json_text(schema))[:_SHORT]) for name, schema in tools)
    parts = [f"{name}\0{part}" for name, part in (*section_digests, ("", ""), *tool_digests)]
    return Fingerprint(_digest("\n".join(parts)), section_digests, tool_digests)


def explain_change(old: Fingerprint, new: Fingerprint) -> PromptChange | None:
    """Return the first section, or else the first tool, that differs; None where the prefix is the same."""
    return _first("section", old.sections, new.sections) or _first("tool", old.tools, new.tools)


def _first(
    kind: Literal["section", "tool"], old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]
) -> PromptChange | None:
    before, after = dict(old), dict(new)
    for index in range(max(len(old), len(new))):
        was = old[index] if index < len(old) else None
        now = new[index] if index < len(new) else None
        if was == now:
            continue
        if now is None or (was is not None and was[0] not in after):
            return PromptChange(kind, was[0] if was else "", "removed")
        if now[0] not in before:
            return PromptChange(kind, now[0], "added")
        return PromptChange(kind, now[0], "moved" if was is None or was[0] != now[0] else "changed")
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()
