"""Tools across the border: ours in other agent libraries, theirs in our registry.

One module for each library, which must be installed: ``adapters.pydantic_ai``, ``adapters.openai_agents``,
``adapters.langchain``. Ours go out with policy, approval, limits and records: a call made over there goes
through the whole pipeline here. Theirs come in as definitions to register.
"""

from __future__ import annotations

from .calls import Outgoing

__all__ = ["Outgoing"]
