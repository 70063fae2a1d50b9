"""``read_artifact``: a model pages through what its session kept aside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NotRequired, Protocol

from msgspec import UNSET, Meta
from typing_extensions import TypedDict

from ...content import Content, text
from ...errors import ToolError
from ...tools.define import define_tool
from ...tools.definition import ToolDefinition
from ...tools.execution import ToolRunContext
from ..agents import session_of
from .records import ArtifactPage, SpillOwner

__all__ = ["ArtifactReader", "read_artifact_tool"]

_DEFAULT_LIMIT = 16_000
_MOST = 64_000


class _Arguments(TypedDict):
    locator: Annotated[str, Meta(description="As written in the note.")]
    offset: NotRequired[Annotated[int, Meta(ge=0, description="Where to begin, in bytes; 0 by default.")]]
    limit: NotRequired[
        Annotated[int, Meta(ge=1, description=f"How many bytes at most; {_DEFAULT_LIMIT} by default, at most {_MOST}.")]
    ]


class ArtifactReader(Protocol):
    """A store whose texts can be read back."""

    async def read_text(self, *, owners: Iterable[SpillOwner], locator: str, offset: int, limit: int) -> ArtifactPage:
        """Return a piece of a kept text; see :meth:`LocalSpillStore.read_text`."""
        ...


def read_artifact_tool(store: ArtifactReader) -> ToolDefinition:
    """Return the tool that reads from ``store`` for the calling agent's session, and the one it was forked from."""

    async def execute(args: _Arguments, run: ToolRunContext) -> Any:
        page = await store.read_text(
            owners=_owners_of(run.agent),
            locator=args["locator"],
            offset=args.get("offset", 0),
            limit=min(args.get("limit", _DEFAULT_LIMIT), _MOST),
        )
        following = {} if page.next_offset is None else {"nextOffset": page.next_offset}
        return {"text": page.text, "offset": page.offset, "totalBytes": page.total_bytes, **following}

    return define_tool(
        name="read_artifact",
        description=(
            "Read a piece of a result that was too long to show in full. Give the locator from the note that "
            "stands in its place; go on with the offset that the previous piece ended with."
        ),
        parameters=_Arguments,
        output={
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "text": {"type": "string", "required": True},
                "offset": {"type": "integer", "required": True},
                "totalBytes": {"type": "integer", "required": True},
                "nextOffset": {"type": "integer"},
            },
        },
        execute=execute,
        render=_render,
        is_concurrency_safe=True,
    )


def _owners_of(agent: object) -> list[SpillOwner]:
    log = session_of(agent)
    if log is None:
        raise ToolError("artifacts belong to sessions, and this call has none", "NO_SESSION")
    parent = getattr(getattr(log, "header", None), "parent_session", UNSET)
    return [SpillOwner(log.id)] + ([SpillOwner(parent)] if isinstance(parent, str) else [])


def _render(args: Any, value: Any) -> Content:
    end = value["offset"] + len(value["text"].encode("utf-8", errors="surrogatepass"))
    span = f"bytes {value['offset']} to {end} of {value['totalBytes']}"
    more = f"; go on at offset {value['nextOffset']}" if "nextOffset" in value else "; this is the end"
    return text(f"{value['text']}\n\n({span}{more})")
