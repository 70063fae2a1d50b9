"""Helpers for people's own tests, and the conformance suites that come with the interfaces.

Import the module you need: ``dsh_tools.testing.invariants``, ``dsh_tools.testing.store_conformance``.
The suites need pytest.
"""

from __future__ import annotations

__all__: list[str] = []
