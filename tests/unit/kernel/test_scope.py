"""Scopes as identity keys with one parent."""

from __future__ import annotations

import pytest

from dsh_tools.errors import ScopeError
from dsh_tools.kernel import Scope


def test_scopes_are_the_same_by_identity_only():
    # PIPE-33
    assert Scope("agent") != Scope("agent")
    assert len({Scope("agent"), Scope("agent")}) == 2


def test_a_chain_is_the_scope_and_its_ancestors_nearest_first():
    # PIPE-33, HOST-46: parent links live on the keys.
    grandparent = Scope("grandparent")
    parent = Scope("parent", grandparent)
    child = Scope("child", parent)
    assert child.chain() == (child, parent, grandparent)
    assert grandparent.chain() == (grandparent,)
    assert child.parent is parent


def test_a_parent_is_bound_once():
    # PIPE-34, HOST-47
    child = Scope("child")
    child.bind_parent(Scope("first"))
    with pytest.raises(ScopeError, match='"child" already has the parent "first"'):
        child.bind_parent(Scope("second"))
    with pytest.raises(ScopeError):
        Scope("made with one", Scope("first")).bind_parent(Scope("second"))


def test_a_bound_parent_shows_in_chains_that_were_read_before():
    child, parent, grandparent = Scope("child"), Scope("parent"), Scope("grandparent")
    assert child.chain() == (child,)
    child.bind_parent(parent)
    assert child.chain() == (child, parent)
    parent.bind_parent(grandparent)
    assert child.chain() == (child, parent, grandparent)


def test_only_the_binder_can_rebind():
    # HOST-47: rebinding only through the handle returned to the original binder.
    child, first, second = Scope("child"), Scope("first"), Scope("second")
    link = child.bind_parent(first)
    link.rebind(second)
    assert child.chain() == (child, second)


def test_cycles_are_refused_on_bind_and_rebind():
    # PIPE-34, HOST-47
    top, middle, bottom = Scope("top"), Scope("middle"), Scope("bottom")
    with pytest.raises(ScopeError, match="cycle"):
        top.bind_parent(top)
    middle.bind_parent(top)
    link = bottom.bind_parent(middle)
    with pytest.raises(ScopeError, match="cycle"):
        top.bind_parent(bottom)
    with pytest.raises(ScopeError, match="cycle"):
        link.rebind(bottom)
    assert top.parent is None
    assert bottom.chain() == (bottom, middle, top)
