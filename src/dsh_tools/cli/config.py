"""``dsh.yaml``: what the command puts together. Every error names file, line and key.

::

    tools: {mode: native}
    plugins:
      - dsh_tools.toolkits.files:FilesPlugin
      - my_project.weather:forecast    # a tool, a list of tools, or a module of them
      - use: my_project.tools
        config: {limit: 10}
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pydantic

from ..errors import ConfigError
from ..kernel import fault_key, fault_text
from ..session import SessionsConfig
from ..standard import StandardConfig

__all__ = ["DEFAULT_FILE", "CommandConfig", "PluginEntry", "load_config", "load_object"]

DEFAULT_FILE = "dsh.yaml"


class PluginEntry(pydantic.BaseModel):
    """One plugin to mount, or tools to register: ``use`` is the import path, ``module`` or ``module:object``."""

    model_config = pydantic.ConfigDict(extra="forbid")

    use: str
    config: dict[str, Any] | None = None
    _source: tuple[Path, Any, int] | None = pydantic.PrivateAttr(default=None)

    def comes_from(self, path: Path, document: Any, index: int) -> None:
        """Note which file, and which of its plugins, this entry is, for its errors."""
        self._source = path, document, index

    def config_error(self, error: pydantic.ValidationError, model: object = None) -> ConfigError:
        """Return the error for a config that the plugin refuses: a line for each fault, with its place in the file.

        Parameters:
            error: what is wrong with it.
            model: the plugin's ``Config``, which knows the right keys.
        """
        return ConfigError("\n".join(self._fault(fault, model) for fault in error.errors()))

    def _fault(self, fault: Any, model: object) -> str:
        location: Sequence[str | int] = ("config", *fault["loc"])
        said = f"plugin {self.use}: {fault_key(location)}: {fault_text(fault, model)}"
        if self._source is None:
            return said
        path, document, index = self._source
        return f"{path}:{_line_of(document, ('plugins', index, *location))}: {said}"


class CommandConfig(StandardConfig):
    """The whole of ``dsh.yaml``: the default composition's settings, and further plugins.

    Sessions are kept in a file by default, ``.dsh-tools/sessions.sqlite``.
    """

    sessions: SessionsConfig = pydantic.Field(default_factory=SessionsConfig)
    plugins: list[PluginEntry] = pydantic.Field(default_factory=list[PluginEntry])

    def with_store(self, path: Path | None, *, read_only: bool = False) -> CommandConfig:
        """Return the same settings with the sessions in the SQLite file at ``path``; None leaves them where they are.

        Parameters:
            path: the file.
            read_only: only look on; nothing is made or changed.
        """
        sessions = self.sessions if path is None else SessionsConfig(path=str(path))
        return self.model_copy(update={"sessions": sessions.model_copy(update={"read_only": read_only})})

    @property
    def missing_store(self) -> Path | None:
        """The file of the sessions, where they are kept in one and it is not there."""
        path = Path(self.sessions.path)
        return path if self.sessions.store == "sqlite" and not path.exists() else None

    @pydantic.field_validator("plugins", mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [{"use": item} if isinstance(item, str) else item for item in value]  # pyright: ignore[reportUnknownVariableType]


def load_config(path: Path | None) -> CommandConfig:
    """Read a configuration file; without a path, ``dsh.yaml`` here if there is one, else the defaults.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or holds a wrong value; the text is
            ``file:line: key: what is wrong``, one line for each fault.
    """
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.is_file():
            return CommandConfig()
    # The reader of YAML takes a while to import, and many folders have no such file.
    from .yaml_file import read_yaml

    document = read_yaml(path)
    if document is None:
        return CommandConfig()
    if not isinstance(document, dict):
        raise ConfigError(f"{path}:1: must be a mapping of settings, such as `tools: {{mode: native}}`")
    try:
        config = CommandConfig.model_validate(document)
    except pydantic.ValidationError as error:
        faults = "\n".join(_fault(path, document, fault) for fault in error.errors())
        raise ConfigError(faults) from error
    for index, entry in enumerate(config.plugins):
        entry.comes_from(path, document, index)
    return config


def _fault(path: Path, document: Any, fault: Any) -> str:
    location: Sequence[str | int] = fault["loc"]
    key = fault_key(location) or "(the file)"
    return f"{path}:{_line_of(document, location)}: {key}: {fault_text(fault, CommandConfig)}"


def _line_of(document: Any, location: Iterable[str | int]) -> int:
    """Return the 1-based line of the deepest part of ``location`` that is in the file."""
    line = 1
    here: Any = document
    for part in location:
        position: Any = getattr(here, "lc", None)
        if position is None:
            break
        try:
            found: Any = position.key(part) if isinstance(part, str) else position.item(part)
            here = here[part]
        except (KeyError, IndexError, TypeError, AttributeError):
            break
        line = int(found[0]) + 1
    return line


def load_object(reference: str) -> Any:
    """Import ``module`` or ``module:attribute``; modules in the working directory are found, too.

    The directory stays on the search path: bodies import later, and processes of ``isolation="process"`` look where
    this one does.

    Raises:
        ConfigError: it cannot be imported, or the module has no such attribute.
    """
    module_name, _, attribute = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(f'cannot import "{module_name}": {type(error).__name__}: {error}') from error
    for part in filter(None, attribute.split(".")):
        if not hasattr(found, part):
            raise ConfigError(f'"{module_name}" has no "{attribute}"')
        found = getattr(found, part)
    return found
