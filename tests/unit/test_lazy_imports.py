"""What is imported when, and that nobody can tell by the names that it is late."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dsh_tools
from dsh_tools.content import TextBlock

SOURCE = Path(__file__).parents[2] / "src"
LAZY = ("dsh_tools", "dsh_tools.code_runtime", "dsh_tools.model", "dsh_tools.pipeline", "dsh_tools.schema")

# What takes long: libraries that some parts need, and nobody else should wait for.
HEAVY = {
    "annotated_types", "asyncio", "griffe", "jsonschema_rs", "logging", "msgspec", "psutil", "pydantic",
    "pydantic_core", "rich", "ruamel", "sqlite3", "ssl", "typer", "typing", "typing_extensions",
}  # fmt: skip
FOR_TOOLS = {"asyncio", "jsonschema_rs", "logging", "msgspec", "ssl", "typing", "typing_extensions"}
DEFINE = """
from dsh_tools import tool
@tool
def add(a: int, b: list[int] | None = None) -> dict[str, int]:
    "Add."
    return {}
"""
PREFIX = "import sys; before = set(sys.modules)\n"
SUFFIX = "\nprint('\\n'.join(set(sys.modules) - before))"


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-S", "-c", with_path(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_path(program: str) -> str:
    # Without ``site``, which may load modules of its own on behalf of other distributions.
    return f"import sys; sys.path[:] = {sys.path!r}\n{program}"


def loaded_by(statements: str) -> set[str]:
    return set(run(PREFIX + statements + SUFFIX).split())


# ── what is not imported ──────────────────────────────────────────────────────


def test_importing_the_package_imports_nothing_else():
    loaded = loaded_by("import dsh_tools")
    assert {name for name in loaded if name.startswith("dsh_tools")} == {"dsh_tools", "dsh_tools.lazy_exports"}
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("statements", ["from dsh_tools import tool", "import dsh_tools.pipeline.process.body", DEFINE])
def test_tools_and_the_processes_of_bodies_wait_for_no_pydantic(statements: str):
    loaded = loaded_by(statements)
    assert "dsh_tools.tools.decorator" in loaded
    assert loaded & HEAVY <= FOR_TOOLS
    others = {"dsh_tools.agent", "dsh_tools.services", "dsh_tools.session", "dsh_tools.standard"}
    assert (
        loaded & {*others, "dsh_tools.pipeline.service", "dsh_tools.schema.dialects", "dsh_tools.schema.codegen"}
        == set()
    )


def test_the_default_composition_has_no_runtime_and_no_provider_that_nobody_asked_for():
    loaded = loaded_by("from dsh_tools import standard")
    assert "dsh_tools.services" in loaded
    unwanted = {"dsh_tools.code_runtime.deno", "dsh_tools.code_runtime.monty", "dsh_tools.model.anthropic"}
    assert loaded & {*unwanted, "dsh_tools.schema.types.pydantic_types", "griffe", "psutil", "rich", "typer"} == set()


# ── what the names mean ───────────────────────────────────────────────────────


def declared(package: str) -> dict[str, str]:
    """What type checkers are told: each name with the module that it comes from."""
    path = SOURCE.joinpath(*package.split("."), "__init__.py")
    found: dict[str, str] = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                for imported in body:
                    assert isinstance(imported, ast.ImportFrom)
                    found |= {alias.name: f"{package}.{imported.module}" for alias in imported.names}
    return found


def test_these_packages_are_all_that_are_lazy():
    lazy = {
        ".".join(path.parent.relative_to(SOURCE).parts)
        for path in SOURCE.rglob("__init__.py")
        if "lazy_exports(" in path.read_text(encoding="utf-8")
    }
    assert lazy == set(LAZY)


@pytest.mark.parametrize("name", LAZY)
def test_every_name_is_the_object_of_its_module(name: str):
    package = importlib.import_module(name)
    names = declared(name)
    assert names
    assert set(names) <= set(package.__all__) <= set(dir(package))
    for export, home in names.items():
        assert getattr(package, export) is getattr(importlib.import_module(home), export)


FIRST = """
import importlib, os, sys
import asyncio, griffe, jsonschema_rs, msgspec, psutil, pydantic.main, pydantic.json_schema, typing_extensions
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        importlib.import_module(name)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


def test_every_module_of_a_lazy_package_can_be_the_first():
    modules = [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for name in LAZY
        for path in sorted(SOURCE.joinpath(*name.split(".")).glob("*.py"))
        if path.stem != "__init__"
    ]
    assert len(modules) > 50
    done = subprocess.run([sys.executable, "-c", FIRST, *modules], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_everything_that_the_package_exports_is_lazy():
    assert set(declared("dsh_tools")) == set(dsh_tools.__all__)


@pytest.mark.parametrize("name", LAZY)
def test_a_wrong_name_is_refused_as_usual(name: str):
    package = importlib.import_module(name)
    assert not hasattr(package, "nonsense")
    with pytest.raises(AttributeError, match=f"^module '{name}' has no attribute 'nonsense'$"):
        _ = package.nonsense
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec(f"from {name} import nonsense")


def test_a_star_imports_everything():
    program = "from dsh_tools import *\nimport dsh_tools\nprint([n for n in dsh_tools.__all__ if n not in globals()])"
    assert run(program) == "[]\n"


def test_modules_are_attributes_without_being_imported_by_name():
    program = "import dsh_tools\nprint(dsh_tools.services.Approval, dsh_tools.json_value.snapshot, dsh_tools.schema)"
    assert "dsh_tools.services.approval" in run(program)


@pytest.mark.parametrize(
    "first",
    [
        "import dsh_tools.standard",
        "from dsh_tools.standard import mount_standard",
        "import dsh_tools",
        "from dsh_tools import standard",
        "import dsh_tools; dsh_tools.standard; import dsh_tools.standard",
        "import sys, importlib, dsh_tools.standard; importlib.reload(sys.modules['dsh_tools.standard'])",
    ],
)
def test_an_export_with_the_name_of_a_module_is_the_export(first: str):
    then = """
import dsh_tools, sys
from dsh_tools import standard
from dsh_tools.standard import standard as same
import dsh_tools.standard as third
assert callable(standard) and standard is same is third is dsh_tools.standard
assert sys.modules["dsh_tools.standard"].standard is standard
"""
    assert run(first + then) == ""


def test_other_values_can_be_put_in_the_place_of_an_export(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dsh_tools, "standard", 1)
    assert dsh_tools.standard == 1
    monkeypatch.undo()
    assert callable(dsh_tools.standard)
    assert not isinstance(dsh_tools.standard, ModuleType)


def test_classes_are_pickled_by_their_own_modules():
    for item in (dsh_tools.ToolSuccess, dsh_tools.standard, dsh_tools.Accept, dsh_tools.ToolError):
        assert pickle.loads(pickle.dumps(item)) is item
    block = dsh_tools.TextBlock("a")
    assert type(block) is TextBlock
    assert pickle.loads(pickle.dumps(block)) == block


def test_many_threads_may_ask_first():
    program = """
import random, threading, dsh_tools
gate, found, wrong = threading.Barrier(16), [], []
def ask(seed):
    names = list(dsh_tools.__all__)
    random.Random(seed).shuffle(names)
    gate.wait()
    try:
        found.append({name: getattr(dsh_tools, name) for name in names})
    except BaseException as error:
        wrong.append(repr(error))
threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert wrong == [], wrong
assert len(found) == 16
assert all(each[name] is getattr(dsh_tools, name) for each in found for name in each)
"""
    assert run(program) == ""


# ── pydantic, where it is used ────────────────────────────────────────────────


def test_what_pydantic_needs_is_seen_without_having_looked_for_it_before():
    program = """
import sys
from dsh_tools import from_types, tool
assert "pydantic" not in sys.modules

class Late:
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema
        return core_schema.no_info_plain_validator_function(
            lambda value: cls(), json_schema_input_schema=core_schema.str_schema()
        )

assert from_types(Late).json == {"type": "string"}
assert "pydantic" in sys.modules

import dataclasses, pydantic.dataclasses
from typing import Annotated
from annotated_types import Interval, Predicate
from pydantic import BaseModel, Field, JsonValue, StringConstraints

class Model(BaseModel):
    a: int

@pydantic.dataclasses.dataclass
class Data:
    a: int

assert from_types(Model).json["properties"] == from_types(Data).json["properties"] == {"a": {"type": "integer"}}
assert from_types(JsonValue).json == {}
assert from_types(Annotated[str, StringConstraints(min_length=2)]).json == {"type": "string", "minLength": 2}
assert from_types(Annotated[int, Interval(ge=1, le=3)]).json == {"type": "integer", "minimum": 1, "maximum": 3}
assert from_types(Annotated[int, Predicate(bool)]).refusals(0)

@tool
def f(a: int = Field(3, ge=1), b: list[int] = Field(default_factory=list), *, c: str = Field(..., description="C")) -> int:
    return a

assert f.parameters.json["properties"] == {
    "a": {"type": "integer", "minimum": 1, "default": 3},
    "b": {"type": "array", "items": {"type": "integer"}, "default": []},
    "c": {"type": "string", "description": "C"},
}, f.parameters.json
assert f.parameters.json["required"] == ["c"]
"""
    assert run(program) == ""
