"""The configuration of a server."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dsh_tools.toolkits.mcp import McpConfig, ReconnectConfig

STDIO: dict[str, Any] = {"server_name": "s", "transport": "stdio", "command": "x"}


def test_defaults():
    # HOST-230
    config = McpConfig(**STDIO)
    assert config.tool_call_timeout_ms == 60_000
    assert config.fail_on_startup_error is False
    assert config.trust_annotations is False
    assert config.reconnect == ReconnectConfig(enabled=True, initial_delay_ms=500, max_delay_ms=30_000, max_attempts=10)


@pytest.mark.parametrize("name", ["", "a b", "x" * 33, "é", "a.b", "a\n"])
def test_server_names_have_a_shape(name: str):
    # HOST-230
    with pytest.raises(ValidationError):
        McpConfig(**{**STDIO, "server_name": name})


@pytest.mark.parametrize(
    "wrong",
    [
        {"reconnect": {"attempts": 3}},
        {"reconnect": {"initial_delay_ms": 2000, "max_delay_ms": 1000}},
        {"reconnect": {"max_attempts": 0}},
        {"command": None},
        {"url": "http://localhost"},
        {"transport": "streamable-http", "command": None, "url": "ftp://localhost"},
        {"transport": "streamable-http"},
        {"transport": "carrier-pigeon"},
        {"tool_call_timeout_ms": float("inf")},
        {"unknown": 1},
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]):
    # HOST-230
    with pytest.raises(ValidationError):
        McpConfig(**{**STDIO, **wrong})


def test_delays_double_up_to_the_longest():
    # HOST-241
    reconnect = ReconnectConfig(initial_delay_ms=500, max_delay_ms=3000)
    assert [reconnect.delay(count) for count in (1, 2, 3, 4, 5, 5000)] == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0]
