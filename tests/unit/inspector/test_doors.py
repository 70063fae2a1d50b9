"""Who gets in: hosts, tokens, cookies, the second secret, and the headers of every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.support.inspector import inspected

from dsh_tools.errors import ConfigError
from dsh_tools.inspector import Inspector, InspectorConfig, InspectorPlugin
from dsh_tools.kernel import create_context
from dsh_tools.pipeline import ToolsPlugin

JSON = {"content-type": "application/json"}


@pytest.fixture
async def door(no_leaks: None) -> AsyncIterator[tuple[Inspector, httpx.AsyncClient]]:
    async with inspected() as (_ctx, inspector), httpx.AsyncClient(base_url=inspector.address) as client:
        yield inspector, client


async def come_in(inspector: Inspector, client: httpx.AsyncClient) -> dict[str, str]:
    answer = await client.post("/api/login", json={"token": inspector.keys.token})
    assert answer.status_code == 200
    return {"x-csrf-token": answer.json()["csrf"]}


async def test_the_token_becomes_a_cookie_that_scripts_cannot_read(door: Any) -> None:
    inspector, client = door
    assert (await client.get("/api/me")).status_code == 401
    await come_in(inspector, client)
    assert (await client.get("/api/me")).json()["about"]["live"] is True
    answer = await client.post("/api/login", json={"token": inspector.keys.token})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert inspector.keys.token not in cookie
    assert inspector.url.startswith(inspector.address + "#token=")


@pytest.mark.parametrize("token", ["", "x", None, 7, "é" * 40, ["x"]])
async def test_a_wrong_token_gets_nothing(door: Any, token: object) -> None:
    _inspector, client = door
    answer = await client.post("/api/login", json={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1", ""])
async def test_only_names_that_lead_here_are_answered(door: Any, host: str) -> None:
    _inspector, client = door
    for path in ("/", "/api/me", "/static/app.js"):
        answer = await client.get(path, headers={"host": host})
        # An empty host is refused by the server itself.
        assert answer.status_code in (400, 421)
        assert "<html" not in answer.text


async def test_localhost_is_a_name_of_the_loopback(door: Any) -> None:
    inspector, client = door
    port = inspector.address.rsplit(":", 1)[1].strip("/")
    assert (await client.get("/", headers={"host": f"localhost:{port}"})).status_code == 200


async def test_changes_need_the_second_secret_json_and_our_own_page(door: Any) -> None:
    inspector, client = door
    secret = await come_in(inspector, client)
    origin = inspector.address.rstrip("/")
    body = {"scope": "", "name": "nothing", "arguments": {}}
    for headers, status in (
        ({}, 403),
        ({"x-csrf-token": "wrong"}, 403),
        ({**secret, "origin": "http://127.0.0.1:1"}, 403),
        ({**secret, "origin": "null"}, 403),
        ({**secret, "sec-fetch-site": "cross-site"}, 403),
        ({**secret, "sec-fetch-site": "same-site"}, 403),
        ({**secret, "content-type": "text/plain"}, 415),
        ({**secret, "origin": origin, "sec-fetch-site": "same-origin"}, 200),
    ):
        answer = await client.post("/api/call", json=body, headers=headers)
        assert answer.status_code == status, headers


async def test_reading_from_other_pages_is_refused_and_so_are_other_methods(door: Any) -> None:
    inspector, client = door
    await come_in(inspector, client)
    for site in ("cross-site", "same-site"):
        assert (await client.get("/api/sessions", headers={"sec-fetch-site": site})).status_code == 403
    assert (await client.post("/", headers=JSON)).status_code == 405
    assert (await client.delete("/api/sessions", headers=JSON)).status_code == 403


async def test_every_answer_carries_the_security_headers(door: Any) -> None:
    inspector, client = door
    for path in ("/", "/static/app.js", "/static/none.js", "/api/me", "/api/none"):
        answer = await client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "require-trusted-types-for 'script'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


async def test_the_page_needs_nothing_from_elsewhere(door: Any) -> None:
    _inspector, client = door
    page = (await client.get("/")).text
    assert "http" not in page.replace("http-equiv", "")
    assert "<style" not in page and "onclick" not in page
    for name in ("../auth.py", "..%2fauth.py", "%2e%2e/auth.py", "auth.py"):
        assert (await client.get(f"/static/{name}")).status_code == 404


async def test_a_taken_port_and_missing_sessions_are_said(no_leaks: None) -> None:
    async with inspected() as (_ctx, inspector):
        port = int(inspector.address.rsplit(":", 1)[1].strip("/"))
        with pytest.raises(ConfigError, match="cannot listen on"):
            async with inspected({"port": port}):
                pass
    async with create_context() as ctx:
        await ctx.plugin(ToolsPlugin())
        with pytest.raises(ConfigError, match="needs sessions"):
            await ctx.plugin(InspectorPlugin())


def test_names_follow_the_address() -> None:
    assert "localhost" in InspectorConfig().names
    assert InspectorConfig(host="10.0.0.5", allowed_hosts=["box"]).names == ["10.0.0.5", "box"]
    assert InspectorConfig(host="::1").address(80) == "http://[::1]:80/"
