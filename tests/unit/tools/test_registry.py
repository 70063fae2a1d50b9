"""The registry by itself, without the service that binds its entries to lifetimes."""

from __future__ import annotations

from tests.support.calls import Body, make_tool

from dsh_tools.tools import ToolRegistry, compile_definition


def test_removing_a_tool_never_removes_a_later_one_of_its_name() -> None:
    # PIPE-14, HOST-53: entries go by identity
    registry = ToolRegistry()
    first, second = compile_definition(make_tool()), compile_definition(make_tool(execute=Body("second")))
    registry.add(first, None)
    registry.remove(first, None)
    registry.add(second, None)
    registry.remove(first, None)
    assert registry.view(None).entries == {"t": second}


def test_views_are_kept_until_something_changes() -> None:
    # design 9: a call costs a look-up
    registry = ToolRegistry()
    registry.add(compile_definition(make_tool()), None)
    view = registry.view(None)
    assert registry.view(None) is view
    registry.add(compile_definition(make_tool("u")), None)
    assert list(registry.view(None).entries) == ["t", "u"]
    assert list(view.entries) == ["t"]
