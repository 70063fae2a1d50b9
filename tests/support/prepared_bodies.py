"""A body whose module needs what takes long to import; it tells what stood ready before."""

from __future__ import annotations

import sys
from typing import Any

WANTED = ("dsh_tools.agent", "dsh_tools.standard", "griffe", "pydantic.fields", "tomllib")
READY = [name for name in WANTED if name in sys.modules]

import tomllib  # noqa: E402 - what is ready has to be seen first

import griffe  # noqa: E402
from pydantic import Field  # noqa: E402

from dsh_tools import Agent, standard  # noqa: E402

USED = (Agent, Field, griffe, standard, tomllib)


def ready(args: Any, run: Any) -> list[str]:
    return READY
