"""The tool ``read_image``."""

from __future__ import annotations

import base64
from functools import partial
from typing import Annotated, TypedDict

from ...content import Content, ImageBlock
from ...tools import ToolDefinition, ToolRunContext, define_tool
from ...tools.cards import GenericCall, Location
from ..arguments import also_check
from ..file_errors import NotTextError
from .bytes_io import read_all
from .encodings import image_kind
from .space import FileSpace, check_abort

__all__ = ["read_image_tool"]

_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WebP": "image/webp"}
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class ImageArgs(TypedDict):
    """Which image to look at."""

    file_path: Annotated[str, "The image: relative to the working folder, or absolute. PNG, JPEG, GIF or WebP."]


class Image(TypedDict):
    """An image; ``data`` is base64."""

    path: str
    mimeType: str
    bytes: int
    data: str


def read_image_tool(space: FileSpace) -> ToolDefinition:
    """Return ``read_image`` over these folders (HOST-209, 217)."""

    def execute(args: ImageArgs, run: ToolRunContext) -> Image:
        with space.locate(run, args["file_path"]) as place:
            data = read_all(place, partial(check_abort, run), space.config.max_image_bytes)
            kind = image_kind(data[:64])
            if kind not in _TYPES:
                raise NotTextError(f"{place.shown} is not a PNG, JPEG, GIF or WebP image; use read for text")
            return Image(
                path=place.shown,
                mimeType=_TYPES[kind],
                bytes=len(data),
                data=base64.b64encode(data).decode("ascii"),
            )

    definition = define_tool(
        name="read_image",
        description="Look at an image file.",
        parameters=ImageArgs,
        output=Image,
        execute=execute,
        isolation="thread",
        render=_render,
        is_concurrency_safe=True,
        present_call=_present_call,
        idempotent=True,
    )
    return also_check(definition, _check)


def _check(args: ImageArgs) -> list[str]:
    """Refuse other files before any is opened (HOST-217)."""
    if args["file_path"].lower().endswith(_ENDINGS):
        return []
    return [f"file_path must end in one of {', '.join(_ENDINGS)}; use read for other files"]


def _render(args: ImageArgs, value: Image) -> Content:
    return (ImageBlock(value["data"], value["mimeType"]),)


def _present_call(args: ImageArgs) -> GenericCall:
    path = args["file_path"]
    return GenericCall(f"Look at {path}", kind="read", locations=(Location(path),))
