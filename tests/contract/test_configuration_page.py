"""The page on configuration names every key of ``dsh.yaml``, and its examples are taken as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pydantic
import pytest
from ruamel.yaml import YAML

from dsh_tools.cli.config import CommandConfig, PluginEntry, load_config

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "configuration.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
# What is in the first block for show only; everything else there is the default.
SHOWN = {"policy.rules", "plugins", "limits.limits"}


def models_in(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def missing(model: type[pydantic.BaseModel], written: Any, path: str = "") -> Iterator[str]:
    if isinstance(written, list):
        # One of the elements shows all keys.
        yield from min((list(missing(model, one, path)) for one in written if isinstance(one, dict)), key=len)
        return
    for name, field in model.model_fields.items():
        if name not in written:
            yield f"{path}{name}"
        for inner in models_in(field.annotation):
            if isinstance(written.get(name), (dict, list)):
                yield from missing(inner, written[name], f"{path}{name}.")


def test_every_key_is_there():
    assert list(missing(CommandConfig, YAML(typ="safe").load(BLOCKS[0]))) == []


def test_a_key_that_is_not_there_is_found():
    written = YAML(typ="safe").load(BLOCKS[0])
    del written["policy"]["rules"][0]["reason"], written["code"]["language"]
    assert list(missing(CommandConfig, written)) == ["policy.rules.reason", "code.language"]
    assert list(missing(PluginEntry, {"use": "a"})) == ["config"]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_are_taken(block: str, tmp_path: Path):
    path = tmp_path / "dsh.yaml"
    path.write_text(block)
    load_config(path)


def test_what_is_written_as_a_default_is_one(tmp_path: Path):
    path = tmp_path / "dsh.yaml"
    path.write_text(BLOCKS[0])
    written = load_config(path)
    for name, field in CommandConfig.model_fields.items():
        found: Any = getattr(written, name)
        if name not in SHOWN and isinstance(found, pydantic.BaseModel):
            kept = {f"{name}.{key}" for key in type(found).model_fields} & SHOWN
            exclude = {place.partition(".")[2] for place in kept}
            (model,) = models_in(field.annotation)
            assert found.model_dump(exclude=exclude) == model().model_dump(exclude=exclude), name
