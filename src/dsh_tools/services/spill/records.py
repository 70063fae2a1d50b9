"""The seam between those who spill and those who keep (HOST-95)."""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["ArtifactPage", "SavedText", "SpillOwner", "SpillSource", "SpillStore"]


class SpillOwner(msgspec.Struct, frozen=True):
    """Whose text it is: the session that will want to read it."""

    session_id: str


class SpillSource(msgspec.Struct, frozen=True):
    """Where a text comes from; ``label`` says in what role, such as ``result``."""

    tool_name: str
    call_id: str
    label: str


class SavedText(msgspec.Struct, frozen=True):
    """A text that is kept.

    Parameters:
        locator: names it in its store.
        bytes: its length in UTF-8.
        retrieval_hint: a sentence that tells a model how to read it.
    """

    locator: str
    bytes: int
    retrieval_hint: str


class ArtifactPage(msgspec.Struct, frozen=True, rename="camel"):
    """A piece of a kept text.

    Parameters:
        text: the piece; it begins and ends between characters.
        offset: where it begins, in bytes.
        next_offset: where the next piece begins; None at the end.
        total_bytes: the length of the whole.
    """

    text: str
    offset: int
    next_offset: int | None
    total_bytes: int


class SpillStore(Protocol):
    """Keeps texts. What ``ctx.spill`` has to offer."""

    async def save_text(
        self, *, owner: SpillOwner, source: SpillSource, suggested_name: str, content: str
    ) -> SavedText:
        """Keep a text as it is, whole.

        Raises:
            OSError: it could not be kept.
        """
        ...
