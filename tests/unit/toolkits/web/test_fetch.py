"""Fetching pages, from servers that mean well and servers that don't."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.calls import app
from tests.support.web import Handler, pages, response, web_server

from dsh_tools.content import content_text
from dsh_tools.kernel import AbortController, Context
from dsh_tools.services import TimeoutPlugin
from dsh_tools.toolkits.web import WEB_FETCH, FetchedPage, WebPlugin
from dsh_tools.toolkits.web import fetcher as fetcher_module
from dsh_tools.toolkits.web.addresses import resolve
from dsh_tools.tools import (
    PresentedResult,
    ToolCall,
    ToolFailure,
    ToolResult,
    ToolSuccess,
    view_of_call,
    view_of_result,
)
from dsh_tools.tools.cards import GenericCall, WebFetch


@asynccontextmanager
async def browsing(handler: Handler, **config: Any) -> AsyncIterator[tuple[Context, str]]:
    async with app() as ctx, web_server(handler) as base:
        await ctx.plugin(WebPlugin(), {"allow_private": True, **config})
        yield ctx, base


async def fetch(ctx: Context, url: str, **more: Any) -> ToolResult:
    return await ctx.tools.execute(ToolCall("web_fetch", {"url": url}, **more))


def code(result: ToolResult) -> str:
    assert isinstance(result, ToolFailure), result
    assert not isinstance(result.error.info, type(None))
    return result.error.info.code  # type: ignore[union-attr]


PAGE = b"""<!DOCTYPE html><html><head><title> A  page </title><style>p{}</style></head><body>
<script>alert(1)</script><h1>Head</h1><p>Some <b>bold</b> <a href="/there">link</a></p><ul><li>one<li>two</ul>
<pre>a  b</pre></body></html>"""


async def test_html_becomes_markdown(no_leaks: None):
    # HOST-227
    async with browsing(pages(index=response(PAGE))) as (ctx, base):
        result = await fetch(ctx, base + "/")
        assert isinstance(result, ToolSuccess), result
        assert result.value["statusCode"] == 200
        assert result.value["title"] == "A page"
        content = result.value["body"]["content"]
        assert result.value["body"]["kind"] == "html"
        assert f"Some **bold** [link]({base}/there)" in content
        assert "# Head" in content
        assert "alert" not in content
        assert "p{}" not in content
        shown = content_text(result.content)
        assert shown.startswith(f"{base}/ (status 200)\n\n")


async def test_other_text_comes_as_it_is_and_errors_are_pages(no_leaks: None):
    # HOST-227
    known = pages(
        json=response(b'{"a": 1}', kind="application/json"),
        gone=response(b"no <b>", "410 Gone", "text/plain"),
        bare=response(b"plain", kind=""),
        markup=response(b"<!doctype html><p>x", kind=""),
        empty=response(b"", "204 No Content", ""),
    )
    async with browsing(known) as (ctx, base):
        found = {name: await fetch(ctx, f"{base}/{name}") for name in ("json", "gone", "bare", "markup", "empty", "x")}
    values = {name: result.value for name, result in found.items() if isinstance(result, ToolSuccess)}
    assert values["json"]["body"] == {"kind": "text", "content": '{"a": 1}'}
    assert (values["gone"]["statusCode"], values["gone"]["body"]["content"]) == (410, "no <b>")
    assert values["bare"]["body"]["kind"] == "text"
    assert values["markup"]["body"] == {"kind": "html", "content": "x"}
    assert values["empty"]["body"]["content"] == ""
    assert values["x"]["statusCode"] == 404


async def test_what_is_no_text_is_refused(no_leaks: None):
    known = pages(png=response(b"\x89PNG", kind="image/png"), raw=response(b"\0\1\2", kind=""))
    async with browsing(known) as (ctx, base):
        assert code(await fetch(ctx, base + "/png")) == "WEB_NOT_TEXT"
        assert code(await fetch(ctx, base + "/raw")) == "WEB_NOT_TEXT"


async def test_long_pages_are_cut(no_leaks: None):
    # HOST-227
    long = response(b"<p>" + b"x" * 5000 + b"</p>")
    async with browsing(pages(index=long), fetch_max_output_chars=1000) as (ctx, base):
        result = await fetch(ctx, base)
        assert isinstance(result, ToolSuccess)
        assert result.value["truncated"] is True
        shown = content_text(result.content)
        assert len(shown) <= 1000
        assert "cut at 1000 characters" in shown


async def test_deep_pages_stay_html(no_leaks: None):
    # HOST-227
    deep = b"<div>" * 600 + b"x" + b"</div>" * 600
    sly = b"<div></b>" * 20_000 + b"x"
    flat = b"<p>a</p>" * 2000
    async with browsing(pages(deep=response(deep), sly=response(sly), flat=response(flat))) as (ctx, base):
        for name, raw in (("deep", True), ("sly", True), ("flat", False)):
            result = await fetch(ctx, f"{base}/{name}")
            assert isinstance(result, ToolSuccess)
            assert ("<div>" in result.value["body"]["content"]) is raw
            assert result.value["body"]["kind"] == "html"


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("text/plain; charset=iso-8859-1", "naïve €".encode("cp1252"), "naïve €"),
        ("text/plain; charset=utf-8", "naïve".encode("latin-1"), "na\N{REPLACEMENT CHARACTER}ve"),
        ("text/plain; charset=no-such-charset", "naïve".encode(), "naïve"),
        ("text/plain; charset=base64", b"aGVsbG8=", "aGVsbG8="),
        ("text/plain; charset=rot13", b"hello", "hello"),
        ("text/plain; charset=utf-8", "\ufeffwide".encode("utf-16"), "wide"),
        ("text/plain", b"a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("text/html", '<meta charset="windows-1251"><p>привет'.encode("cp1251"), "привет"),
        ("text/html; charset=shift_jis", "<p>日本".encode("shift_jis"), "日本"),
    ],
)
async def test_character_sets_right_wrong_and_missing(kind: str, body: bytes, expected: str, no_leaks: None):
    async with browsing(pages(index=response(body, kind=kind))) as (ctx, base):
        result = await fetch(ctx, base)
        assert isinstance(result, ToolSuccess), result
        assert result.value["body"]["content"].lstrip("\ufeff") == expected


async def test_compression_is_undone(no_leaks: None):
    raw = zlib.compressobj(wbits=-15)
    known = pages(
        gzip=response(gzip.compress(b"hello"), kind="text/plain", content_encoding="gzip"),
        deflate=response(zlib.compress(b"hello"), kind="text/plain", content_encoding="deflate"),
        bare=response(raw.compress(b"hello") + raw.flush(), kind="text/plain", content_encoding="deflate"),
        broken=response(b"not gzip at all", kind="text/plain", content_encoding="gzip"),
        odd=response(b"?", kind="text/plain", content_encoding="br"),
    )
    async with browsing(known) as (ctx, base):
        for name in ("gzip", "deflate", "bare"):
            result = await fetch(ctx, f"{base}/{name}")
            assert isinstance(result, ToolSuccess), result
            assert result.value["body"]["content"] == "hello"
        assert code(await fetch(ctx, base + "/broken")) == "WEB_FETCH_FAILED"
        assert code(await fetch(ctx, base + "/odd")) == "WEB_FETCH_FAILED"


async def test_a_gzip_bomb_costs_no_memory(no_leaks: None):
    bomb = gzip.compress(b"\n" * 300_000_000, 9)
    known = pages(index=response(bomb, kind="text/plain", content_encoding="gzip"))
    async with browsing(known, fetch_max_bytes=1_000_000) as (ctx, base):
        tracemalloc.start()
        try:
            result = await fetch(ctx, base)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert isinstance(result, ToolSuccess)
    assert result.value["truncated"] is True
    assert peak < 30_000_000


async def test_endless_and_slow_bodies_end(no_leaks: None):
    async def handle(path: str, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * (65_536 if path == "/fast" else 1))
            await writer.drain()
            await asyncio.sleep(0 if path == "/fast" else 0.02)

    async with browsing(handle, fetch_timeout_ms=400, fetch_max_bytes=500_000) as (ctx, base):
        fast = await fetch(ctx, base + "/fast")
        assert isinstance(fast, ToolSuccess)
        assert fast.value["truncated"] is True
        assert code(await fetch(ctx, base + "/slow")) == "WEB_TIMEOUT"
        await ctx.plugin(TimeoutPlugin())
        assert code(await fetch(ctx, base + "/slow")) in ("WEB_TIMEOUT", "TOOL_TIMEOUT")


async def test_answers_that_are_no_http_or_break_off(no_leaks: None):
    async def handle(path: str, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        if path == "/short":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nhello")
        elif path == "/noise":
            writer.write(b"\x00\x01\x02 what\r\n\r\n")

    async with browsing(handle) as (ctx, base):
        for path in ("short", "noise", "silence"):
            assert code(await fetch(ctx, f"{base}/{path}")) == "WEB_FETCH_FAILED"
    async with browsing(handle) as (ctx, base):
        pass
    async with app() as ctx:
        await ctx.plugin(WebPlugin(), {"allow_private": True})
        assert code(await fetch(ctx, base)) == "WEB_FETCH_FAILED"


async def test_redirects_are_followed_within_bounds(no_leaks: None):
    known = pages(
        a=response(b"", "302 Found", location="/b"),
        b=response(b"", "308 Permanent Redirect", location="c?x=1#frag"),
        c=response(b"here", kind="text/plain"),
        loop=response(b"", "301 Moved", location="/loop"),
        bad=response(b"", "302 Found", location="file:///etc/passwd"),
        creds=response(b"", "302 Found", location="http://user:pw@127.0.0.1/"),
        nowhere=response(b"stay", "302 Found", "text/plain"),
    )
    async with browsing(known) as (ctx, base):
        result = await fetch(ctx, base + "/a")
        assert isinstance(result, ToolSuccess)
        assert result.value["url"].startswith(base + "/c?x=1")
        assert code(await fetch(ctx, base + "/loop")) == "WEB_TOO_MANY_REDIRECTS"
        assert code(await fetch(ctx, base + "/bad")) == "WEB_BAD_URL"
        assert code(await fetch(ctx, base + "/creds")) == "WEB_BAD_URL"
        result = await fetch(ctx, base + "/nowhere")
        assert isinstance(result, ToolSuccess)
        assert result.value["statusCode"] == 302


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x/", "file:///etc/passwd", "http://", "http:///x", "javascript:1", "http://u:p@h/", "http://[::1", "x"],
)
async def test_what_is_no_address_is_said(url: str, no_leaks: None):
    async with app() as ctx:
        await ctx.plugin(WebPlugin())
        assert code(await fetch(ctx, url)) == "WEB_BAD_URL"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "017700000001", "10.0.0.1", "169.254.169.254",
     "192.168.1.1", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::]", "[fd00::1]",
     "[fe80::1]", "100.64.0.1", "224.0.0.1", "[::]", "[::127.0.0.1]", "255.255.255.255"],
)  # fmt: skip
async def test_private_addresses_are_refused_in_every_spelling(host: str, no_leaks: None):
    async with app() as ctx:
        await ctx.plugin(WebPlugin())
        assert code(await fetch(ctx, f"http://{host}:9/")) in ("WEB_ADDRESS_REFUSED", "WEB_BAD_URL", "WEB_FETCH_FAILED")
        result = await fetch(ctx, f"http://{host}:9/")
        assert isinstance(result, ToolFailure)
        assert "cannot be fetched" not in result.error.message  # nobody tried to connect


async def test_a_redirect_into_a_private_network_is_refused(no_leaks: None):
    seen: list[str] = []

    async def handle(path: str, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        seen.append(fields["host"] + path)
        writer.write(response(b"", "302 Found", location="http://localhost:1/secret"))

    async with app() as ctx, web_server(handle) as base:
        await ctx.plugin(WebPlugin(), {"allowed_hosts": [base.removeprefix("http://")]})
        assert code(await fetch(ctx, base + "/x")) == "WEB_ADDRESS_REFUSED"
    assert len(seen) == 1


async def test_the_connection_goes_to_the_address_that_was_checked(no_leaks: None, monkeypatch: pytest.MonkeyPatch):
    """A name that is public when it is checked and private a moment later is of no use."""
    looked_up: list[str] = []

    async def rebinding(host: str, port: int, allowed: Any) -> str:
        looked_up.append(host)
        return await resolve("127.0.0.1", port, None)

    monkeypatch.setattr(fetcher_module, "resolve", rebinding)
    seen: list[str] = []

    async def handle(path: str, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        seen.append(fields["host"])
        writer.write(response(b"ok", kind="text/plain"))

    async with app() as ctx, web_server(handle) as base:
        await ctx.plugin(WebPlugin())
        port = base.rpartition(":")[2]
        # The name does not exist: had anything looked it up again, the fetch would fail.
        result = await fetch(ctx, f"http://no-such-name.invalid:{port}/")
        assert isinstance(result, ToolSuccess), result
    assert looked_up == ["no-such-name.invalid"]
    assert seen == [f"no-such-name.invalid:{port}"]


async def test_the_environment_adds_no_proxy(no_leaks: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with browsing(pages(index=response(b"direct", kind="text/plain"))) as (ctx, base):
        assert isinstance(await fetch(ctx, base), ToolSuccess)


async def test_an_abort_ends_a_fetch(no_leaks: None):
    reached = asyncio.Event()

    async def handle(*_: Any) -> None:
        reached.set()
        await asyncio.sleep(60)

    async with browsing(handle) as (ctx, base):
        controller = AbortController()
        task = asyncio.create_task(fetch(ctx, base, signal=controller.signal))
        await reached.wait()
        controller.abort()
        assert code(await task) == "ABORTED"


async def test_fetching_overlaps_and_has_a_time_limit(no_leaks: None):
    # HOST-228
    async with app() as ctx:
        await ctx.plugin(WebPlugin())
        assert ctx.tools.execution_mode(ToolCall("web_fetch", {"url": "x"})) == "parallel"
        assert ctx.tools.execution_mode(ToolCall("web_search", {"queries": ["x"]})) == "parallel"
        assert {ctx.tools.get(name).timeout_ms for name in ("web_fetch", "web_search")} == {30_000}


async def test_another_provider_can_fetch(no_leaks: None):
    # HOST-228
    class Archive:
        async def fetch(self, url: str, *, signal: Any) -> FetchedPage:
            return FetchedPage(url, 200, "text/plain", b"from the archive")

    async with app() as ctx:
        await ctx.plugin(WebPlugin())
        ctx.provide(WEB_FETCH, Archive())
        result = await fetch(ctx, "http://10.0.0.1/")
        assert content_text(result.content) == "http://10.0.0.1/ (status 200)\n\nfrom the archive"


async def test_without_the_extra_the_tool_says_so(no_leaks: None, monkeypatch: pytest.MonkeyPatch):
    # HOST-228
    monkeypatch.setitem(__import__("sys").modules, "dsh_tools.toolkits.web.fetcher", None)
    async with app() as ctx:
        await ctx.plugin(WebPlugin())
        assert code(await fetch(ctx, "http://example.com/")) == "WEB_PROVIDER_MISSING"


@pytest.mark.parametrize("off", ["search", "fetch"])
async def test_each_tool_can_be_left_out(off: str, no_leaks: None):
    # HOST-228
    async with app() as ctx:
        await ctx.plugin(WebPlugin(), {off: False})
        assert [schema.name for schema in ctx.tools.schemas()] == ["web_fetch" if off == "search" else "web_search"]


async def test_cards(no_leaks: None):
    # HOST-229
    async with browsing(pages(index=response(PAGE))) as (ctx, base):
        definition = ctx.tools.get("web_fetch")
        arguments = {"url": base}
        assert view_of_call(definition, arguments) == GenericCall(f"Fetch {base}", kind="fetch")
        result = await fetch(ctx, base)
        presented = PresentedResult(result.content, result.is_error, result.meta)
        assert view_of_result(definition, arguments, presented) == WebFetch(base, 200, False, title="A page")
        assert view_of_result(definition, arguments, PresentedResult((), True)) != WebFetch
