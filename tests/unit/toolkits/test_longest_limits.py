"""Limits of time in configurations end where timers do: they are refused when they are read. HOST-137."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from dsh_tools.kernel import MAX_TIMEOUT_MS
from dsh_tools.pipeline import ToolsConfig
from dsh_tools.services.limits import LimitConfig
from dsh_tools.toolkits.mcp.config import McpConfig
from dsh_tools.toolkits.search.config import SearchConfig
from dsh_tools.toolkits.shell.config import ShellConfig
from dsh_tools.toolkits.web.config import WebConfig
from dsh_tools.toolkits.web.searxng import SearxngConfig


@pytest.mark.parametrize(
    ("config", "fields", "name"),
    [
        (ToolsConfig, {}, "process_grace_ms"),
        (LimitConfig, {"max_calls": 1}, "max_wait_ms"),
        (McpConfig, {"server_name": "s", "transport": "stdio", "command": "c"}, "tool_call_timeout_ms"),
        (McpConfig, {"server_name": "s", "transport": "stdio", "command": "c"}, "connect_timeout_ms"),
        (SearchConfig, {}, "timeout_ms"),
        (SearchConfig, {}, "grace_ms"),
        (ShellConfig, {}, "max_timeout_ms"),
        (ShellConfig, {}, "grace_ms"),
        (WebConfig, {}, "search_timeout_ms"),
        (WebConfig, {}, "fetch_timeout_ms"),
        (SearxngConfig, {"url": "http://127.0.0.1:1"}, "timeout_ms"),
    ],
)
def test_a_limit_beyond_the_longest_timer_is_refused(config: Any, fields: dict[str, Any], name: str) -> None:
    # HOST-137
    with pytest.raises(
        pydantic.ValidationError, match=rf"(?s){name}\s+Input should be less than or equal to 2147483647"
    ):
        config.model_validate({**fields, name: MAX_TIMEOUT_MS + 1})
    assert getattr(config.model_validate({**fields, name: MAX_TIMEOUT_MS}), name) == MAX_TIMEOUT_MS
