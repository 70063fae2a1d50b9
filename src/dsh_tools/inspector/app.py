"""The routes: the page's files, and what the page asks for. Needs the extra ``[inspect]``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ..errors import HarnessError, SessionError
from ..json_value import parse_json, to_json_text
from ..session import dump_jsonl
from .rows import raw_text
from .search import search_sessions
from .stream import event_stream, session_rows
from .svg import timeline_svg
from .timeline import timeline_of

if TYPE_CHECKING:
    from .service import Inspector

__all__ = ["make_app"]

_TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
_MAX_BODY = 4_000_000

Handler = Callable[[Request], Awaitable[Response]]


def make_app(inspector: Inspector, port: int) -> Starlette:
    """Return the routes of one inspector; :class:`Doorkeeper` stands in front of them."""
    pages = _Pages(inspector, port)
    gets: dict[str, Handler] = {
        "/": pages.file,
        "/static/{name}": pages.file,
        "/api/me": pages.me,
        "/api/stream": pages.stream,
        "/api/sessions": pages.sessions,
        "/api/search": pages.search,
        "/api/timeline": pages.timeline,
        "/api/timeline.svg": pages.timeline_svg,
        "/api/export": pages.export,
        "/api/raw": pages.raw,
        "/api/approvals": pages.approvals,
        "/api/tools": pages.tools,
    }
    posts: dict[str, Handler] = {
        "/api/login": pages.login,
        "/api/approvals/{id}": pages.answer,
        "/api/call": pages.call,
    }
    routes = [Route(path, _contained(handler), methods=["GET"]) for path, handler in gets.items()]
    routes += [Route(path, _contained(handler), methods=["POST"]) for path, handler in posts.items()]
    return Starlette(routes=routes)


class _Pages:
    def __init__(self, inspector: Inspector, port: int) -> None:
        self._inspector = inspector
        self._port = port
        folder = files("dsh_tools.inspector").joinpath("static")
        self._files = {entry.name: entry for entry in folder.iterdir() if entry.is_file()}

    async def file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        entry = self._files.get(name)
        if entry is None:
            return PlainTextResponse("there is no such file", 404)
        return Response(entry.read_bytes(), media_type=_TYPES[name.rpartition(".")[2]])

    # ── coming in ─────────────────────────────────────────────────────────────

    async def login(self, request: Request) -> Response:
        keys = self._inspector.keys
        given: Any = await _body(request)
        if not keys.fits_token(given.get("token")):
            return PlainTextResponse("this token is not the one that was printed", 401)
        answer = _json({"csrf": keys.csrf, "about": self._inspector.about()})
        answer.headers["set-cookie"] = keys.set_cookie(self._port)
        return answer

    async def me(self, request: Request) -> Response:
        return _json({"csrf": self._inspector.keys.csrf, "about": self._inspector.about()})

    # ── sessions ──────────────────────────────────────────────────────────────

    async def stream(self, request: Request) -> Response:
        session = request.query_params.get("session")
        start = request.headers.get("last-event-id") or request.query_params.get("start", "0")
        begin = int(start) if start.isdecimal() and len(start) < 12 else 0
        return StreamingResponse(event_stream(self._inspector, session, begin), media_type="text/event-stream")

    async def sessions(self, request: Request) -> Response:
        return _json(await session_rows(self._inspector))

    async def search(self, request: Request) -> Response:
        return _json(await search_sessions(self._inspector.source, request.query_params.get("q", "")[:500]))

    async def timeline(self, request: Request) -> Response:
        session = await self._inspector.source.read(_session(request))
        return _json(msgspec.to_builtins(timeline_of(session.events)))

    async def timeline_svg(self, request: Request) -> Response:
        session = await self._inspector.source.read(_session(request))
        picture = timeline_svg(timeline_of(session.events), session.header.id)
        return _download(picture, "image/svg+xml", f"{session.header.id}.svg")

    async def export(self, request: Request) -> Response:
        session = await self._inspector.source.read(_session(request))
        lines = "\n".join(dump_jsonl(session.header, session.events)) + "\n"
        return _download(lines, "application/x-ndjson", f"{session.header.id}.jsonl")

    async def raw(self, request: Request) -> Response:
        seq = request.query_params.get("seq", "")
        events = await self._inspector.source.events(_session(request), int(seq) if seq.isdecimal() else 0)
        if not seq.isdecimal() or not events:
            return PlainTextResponse("there is no such event", 404)
        return _download(raw_text(events[0]), "text/plain", f"event-{seq}.txt")

    # ── approvals ─────────────────────────────────────────────────────────────

    async def approvals(self, request: Request) -> Response:
        desk = self._inspector.desk
        await self._inspector.look()
        return _json({"pending": desk.pending(), "elsewhere": desk.elsewhere()})

    async def answer(self, request: Request) -> Response:
        desk = self._inspector.desk
        if not desk.answers:
            return PlainTextResponse("nobody can be answered from here", 409)
        given: Any = await _body(request)
        reason = given.get("reason")
        done = await desk.answer(
            request.path_params["id"],
            given.get("outcome"),
            reason.strip() or None if isinstance(reason, str) else None,
            given.get("remember"),
            given.get("digest"),
        )
        if done is None:
            return _json({"accepted": False}, 409)
        return _json({"accepted": True} if done == "answered" else {"accepted": True, "turn": done})

    # ── tools ─────────────────────────────────────────────────────────────────

    async def tools(self, request: Request) -> Response:
        return _json(await self._inspector.catalogue.describe())

    async def call(self, request: Request) -> Response:
        given: Any = await _body(request)
        left = asyncio.Event()
        watch = asyncio.create_task(_watch(request, left))
        try:
            answer = await self._inspector.catalogue.call(
                str(given.get("scope", "")), str(given.get("name", "")), given.get("arguments", {}), left
            )
        finally:
            watch.cancel()
            await asyncio.wait({watch})
        return _json(answer)


def _contained(handler: Handler) -> Handler:
    """Answer what went wrong in words; the errors of this package are made to be read."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except SessionError as error:
            return PlainTextResponse(error.message, 404 if error.code == "SESSION_NOT_FOUND" else 400)
        except HarnessError as error:
            return PlainTextResponse(error.message, 400)

    return handle


async def _body(request: Request) -> dict[str, Any]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MAX_BODY:
            raise SessionError("the request is too large", "TOO_LARGE")
    value: Any = parse_json(body)
    if not isinstance(value, dict):
        raise SessionError("send a JSON object", "INVALID_REQUEST")
    return cast("dict[str, Any]", value)


async def _watch(request: Request, left: asyncio.Event) -> None:
    while not left.is_set():
        message = await request.receive()
        if message["type"] == "http.disconnect":
            left.set()


def _session(request: Request) -> str:
    return request.query_params.get("session", "")


def _json(value: Any, status: int = 200) -> Response:
    return Response(to_json_text(value), status, media_type="application/json")


def _download(text: str, media_type: str, name: str) -> Response:
    plain = "".join(char if char.isalnum() or char in "-_." else "_" for char in name if char.isascii())
    headers = {"content-disposition": f'attachment; filename="{plain or "download"}"'}
    return Response(text.encode("utf-8", "replace"), media_type=media_type, headers=headers)
