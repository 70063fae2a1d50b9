"""What a plugin is: its forms, read into one record (HOST-1)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from .service import ServiceKey
from .tasks import is_awaitable

if TYPE_CHECKING:
    from .context import Context

__all__ = ["ConfigModel", "Plugin", "PluginObject", "Recipe", "read_plugin"]


class PluginObject(Protocol):
    """A module or object with ``apply(ctx, config)``; ``name``, ``inject`` and ``Config`` are optional."""

    @property
    def apply(self) -> Callable[..., object]:
        """The body: ``apply(ctx, config)``, sync or async."""
        ...


Plugin: TypeAlias = Callable[["Context", Any], object] | PluginObject | type[Any]
"""A callable ``(ctx, config)``, a class, or a module or object with ``apply`` (HOST-1)."""


class ConfigModel(Protocol):
    """What a plugin's ``Config`` has to offer; every pydantic model does."""

    def model_validate(self, obj: Any, /) -> Any:
        """Return the validated config, or raise what is wrong with it."""
        ...


class Recipe:
    """A plugin, apart from its instances: name, required services, config model and body."""

    __slots__ = ("_body", "_config_model", "name", "required")

    def __init__(
        self,
        name: str,
        required: tuple[str, ...],
        config_model: ConfigModel | None,
        body: Callable[[Context, Any], object],
    ) -> None:
        self.name = name
        self.required = required
        self._config_model = config_model
        self._body = body

    def validate(self, config: object) -> object:
        """Return the config that the body gets; without a model that is what was given (HOST-5).

        Raises:
            pydantic.ValidationError: the config does not fit the plugin's ``Config``.
        """
        model = self._config_model
        if model is None or (isinstance(model, type) and isinstance(config, model)):
            return config
        return model.model_validate({} if config is None else config)

    async def run(self, context: Context, config: object) -> object:
        """Run the body and return what it returned."""
        outcome = self._body(context, config)
        return await outcome if is_awaitable(outcome) else outcome


def read_plugin(plugin: object) -> Recipe:
    """Read any form of plugin.

    Raises:
        TypeError: it is none of the forms, or its ``inject`` or ``Config`` is malformed.
    """
    apply = getattr(plugin, "apply", None)
    body: Callable[[Context, Any], object]
    if inspect.isclass(plugin):
        body = _class_body(cast("type[Any]", plugin))
    elif callable(apply):
        body = apply
    elif callable(plugin):
        body = plugin
    else:
        raise TypeError(
            f"{type(plugin).__name__} is not a plugin; expected a callable (ctx, config), a class, "
            "or a module or object with apply(ctx, config)"
        )
    name = _name_of(plugin)
    return Recipe(name, _required(name, plugin), _config_model(name, plugin), body)


def _class_body(plugin: type[Any]) -> Callable[[Context, Any], Awaitable[object]]:
    async def body(context: Context, config: object) -> object:
        if callable(getattr(plugin, "apply", None)):
            outcome = plugin().apply(context, config)
        else:
            instance = plugin(context, config)
            init = getattr(instance, "init", None)
            outcome = init() if callable(init) else None
        return await outcome if is_awaitable(outcome) else outcome

    return body


def _name_of(plugin: object) -> str:
    name = getattr(plugin, "name", None) or getattr(plugin, "__name__", None)
    return name if isinstance(name, str) else type(plugin).__name__


def _required(name: str, plugin: object) -> tuple[str, ...]:
    inject: object = getattr(plugin, "inject", None)
    if inject is None:
        return ()
    if isinstance(inject, Mapping):
        wanted = cast("Mapping[object, object]", inject)
        if any(not isinstance(needed, bool) for needed in wanted.values()):
            raise TypeError(f'plugin "{name}": inject must map each service to True (required) or False (optional)')
        keys = [key for key, needed in wanted.items() if needed]
    elif isinstance(inject, (list, tuple, set, frozenset)):
        keys = list(cast("Iterable[object]", inject))
    else:
        raise TypeError(f'plugin "{name}": inject must be a list of service names, or a mapping')
    names = [key.name if isinstance(key, ServiceKey) else key for key in cast("list[str | ServiceKey[Any]]", keys)]
    if any(not isinstance(entry, str) or not entry for entry in cast("list[object]", names)):
        raise TypeError(f'plugin "{name}": inject holds something that is not a service name')
    return tuple(dict.fromkeys(names))


def _config_model(name: str, plugin: object) -> ConfigModel | None:
    model = getattr(plugin, "Config", None)
    if model is not None and not callable(getattr(model, "model_validate", None)):
        raise TypeError(f'plugin "{name}": Config must be a pydantic model')
    return model
