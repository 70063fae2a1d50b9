"""Reading YAML in which every mapping knows the line of each of its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from ..errors import ConfigError

__all__ = ["read_yaml"]


def read_yaml(path: Path) -> Any:
    """Return what a file says; its mappings and lists have the places of their entries as ``lc``.

    Raises:
        ConfigError: the file cannot be read, or is not YAML.
    """
    reader: Any = YAML(typ="rt")
    try:
        return reader.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except MarkedYAMLError as error:
        fault: Any = error
        line = 1 if fault.problem_mark is None else int(fault.problem_mark.line) + 1
        raise ConfigError(f"{path}:{line}: is not YAML: {fault.problem or fault.context}") from error
    except YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from error
