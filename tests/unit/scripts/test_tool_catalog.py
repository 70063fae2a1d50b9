"""The catalog of ready-made tools tells what the registry tells. PIPE-237, 238."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.tool_catalog import BOOT, CatalogError, check_manifest, harvest, tool_rows
from tests.support.calls import make_tool

ROOT = Path(__file__).parents[3]
KINDS = ["a", "b"]


@pytest.mark.parametrize("package", BOOT)
async def test_every_package_registers_tools_with_object_parameters(package: str) -> None:
    # PIPE-237
    entries = await harvest(BOOT, package)
    assert entries
    assert {entry.schema.parameters["type"] for entry in entries} == {"object"}


async def test_a_package_that_registers_nothing_is_named() -> None:
    # PIPE-237
    class Silent:
        name = "silent"

        def apply(self, ctx: Any, config: object) -> None: ...

    with pytest.raises(CatalogError, match="silent/toolkit starts and registers nothing"):
        await harvest({"silent/toolkit": lambda ctx, _root: ctx.plugin(Silent())}, "silent/toolkit")


def test_a_package_that_is_not_in_the_manifest_is_named() -> None:
    # PIPE-237
    with pytest.raises(CatalogError, match="kitchen"):
        check_manifest({"files", "kitchen"})


async def test_the_catalog_tells_run_time_values() -> None:
    # PIPE-238: an enum that is built from a constant lists its members
    class Built:
        name = "built"
        inject = ("tools",)

        def apply(self, ctx: Any, config: object) -> None:
            properties = {"kind": {"type": "string", "enum": [*KINDS, "c"]}}
            ctx.tools.register(make_tool("built", parameters={"type": "object", "properties": properties}))

    (entry,) = await harvest({"built": lambda ctx, _root: ctx.plugin(Built())}, "built")
    assert entry.schema.parameters["properties"]["kind"]["enum"] == ["a", "b", "c"]


def test_the_catalog_does_not_depend_on_the_search_path(tmp_path: Path) -> None:
    # PIPE-238
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    script += "from scripts.tool_catalog import tool_rows; from pathlib import Path\n"
    script += f"print(len(tool_rows(Path({str(ROOT / 'src' / 'dsh_tools')!r}))))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(tool_rows(ROOT / "src" / "dsh_tools"))
