"""What each package offers: listed in ``__all__``, there to be imported, documented."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SOURCE).parts) for path in (SOURCE / "dsh_tools").rglob("__init__.py")
)


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def test_every_folder_with_modules_is_a_package():
    folders = {path.parent for path in (SOURCE / "dsh_tools").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_the_package_says_what_it_is(package: ModuleType):
    assert inspect.getdoc(package), f"{package.__name__} has no docstring"


def test_public_names_are_listed_once_and_exist(package: ModuleType):
    names: list[str] = package.__all__
    assert len(names) == len(set(names)), "a name is listed twice"
    missing = [name for name in names if not hasattr(package, name)]
    assert not missing, f"{package.__name__}.__all__ names what is not there: {missing}"
    private = [name for name in names if name.startswith("_") and name != "__version__"]
    assert not private


def test_public_objects_are_documented(package: ModuleType):
    assert undocumented(package) == []


def undocumented(package: ModuleType) -> list[str]:
    """Public classes and functions without a text of their own, and public methods of such classes."""
    found: list[str] = []
    for name in package.__all__:
        item = getattr(package, name)
        if not (inspect.isclass(item) or inspect.isfunction(item)) or not is_ours(item):
            continue
        if not own_doc(item):
            found.append(name)
        if inspect.isclass(item):
            found += [f"{name}.{method}" for method in undocumented_methods(item)]
    return found


def undocumented_methods(cls: type) -> list[str]:
    methods = [
        (name, member.fget if isinstance(member, property) else member)
        for name, member in vars(cls).items()
        if not name.startswith("_")
    ]
    return [
        name
        for name, member in methods
        if inspect.isfunction(member) and is_ours(member) and not inspect.getdoc(getattr(cls, name))
    ]


def is_ours(item: object) -> bool:
    return str(getattr(item, "__module__", "")).startswith("dsh_tools")


def own_doc(item: object) -> str | None:
    # Dataclasses write a signature where no docstring is; that is not documentation.
    doc = item.__doc__
    return None if doc and doc.startswith(f"{getattr(item, '__name__', '')}(") else doc


def test_the_check_sees_what_is_missing():
    module = ModuleType("example")

    class Bare:
        def method(self) -> None: ...

    Bare.__module__ = "dsh_tools.example"
    Bare.method.__module__ = "dsh_tools.example"
    module.Bare = Bare  # type: ignore[attr-defined]
    module.__all__ = ["Bare"]  # type: ignore[attr-defined]
    assert undocumented(module) == ["Bare", "Bare.method"]
