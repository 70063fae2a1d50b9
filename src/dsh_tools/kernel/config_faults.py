"""What a configuration gets wrong, in the words of somebody who writes one; of an unknown key also which are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeGuard, get_args

from ..errors import ConfigError

if TYPE_CHECKING:
    import pydantic

__all__ = ["config_error", "fault_key", "fault_text"]


def config_error(error: pydantic.ValidationError, model: object) -> ConfigError:
    """Return the error for settings that ``model`` refuses: a line ``key: what is wrong`` for each fault."""
    faults = error.errors()
    return ConfigError("\n".join(f"{fault_key(fault['loc'])}: {fault_text(fault, model)}" for fault in faults))


def fault_key(location: Sequence[str | int]) -> str:
    """Return how a place in a configuration is named."""
    return ".".join(str(part) for part in location)


def fault_text(fault: Any, model: object = None) -> str:
    """Say what is wrong.

    Parameters:
        fault: one of the ``errors()`` of a ``pydantic.ValidationError``.
        model: the model that refused the whole; None, or something else than a pydantic model, if it is not known.
    """
    kind = fault["type"]
    if kind == "extra_forbidden":
        *above, key = fault["loc"]
        return f"unknown key{_known(str(key), _keys_at(model, above))}"
    if kind in ("model_type", "dict_type"):
        return "must be a mapping of settings"
    if kind == "list_type":
        return "must be a list"
    return str(fault["msg"]).removeprefix("Value error, ")


def _known(key: str, keys: Sequence[str]) -> str:
    near = get_close_matches(key, keys, 1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known are {', '.join(keys)}" if keys else ""


def _keys_at(model: object, location: Sequence[str | int]) -> list[str]:
    """Return the keys that the model knows at a place; none where that is not clear."""
    here = model
    for part in location:
        # The elements of a list have the place's own model.
        if isinstance(part, str):
            field = here.model_fields.get(part) if _is_model(here) else None
            models = [] if field is None else list(_models_in(field.annotation))
            here = models[0] if len(models) == 1 else None
    return list(here.model_fields) if _is_model(here) else []


def _models_in(annotation: object) -> Iterator[type[pydantic.BaseModel]]:
    if _is_model(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _is_model(value: object) -> TypeGuard[type[pydantic.BaseModel]]:
    # Told by what is read of it: pydantic takes long to import, and not everybody who needs the kernel needs it.
    return isinstance(value, type) and isinstance(getattr(value, "model_fields", None), dict)
