"""The browser, one for all tests of the page."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect
from tests.support.inspector import BROWSER_ARGS
from tests.support.programs import find_program

# Busy machines make pages slow; what counts is that it comes.
expect.set_options(timeout=20_000)

IMAGES = Path(__file__).parents[3] / "docs" / "images"


@pytest.fixture
async def new_page() -> AsyncIterator[Any]:
    """Open pages; an error in a page's own scripts, or a refused resource, fails the test."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(find_program("chromium")), args=BROWSER_ARGS)
        faults: list[str] = []

        async def open_page(url: str, *, width: int = 1180, height: int = 860, **options: Any) -> Page:
            context = await browser.new_context(
                viewport={"width": width, "height": height}, locale="en-GB", timezone_id="UTC", **options
            )
            page = await context.new_page()
            page.on("pageerror", lambda error: faults.append(f"error: {error}"))
            page.on("console", lambda said: faults.append(said.text) if _is_fault(said) else None)
            await page.goto(url)
            return page

        yield open_page
        await browser.close()
    assert not faults, faults


def _is_fault(said: Any) -> bool:
    # The network is taken away on purpose in some tests, and a lost answer race is a status of its own.
    expected = "Failed to load resource" in said.text or "net::ERR" in said.text
    return said.type == "error" and not expected


@pytest.fixture
def picture(tmp_path: Path) -> Any:
    """Keep a picture of a page, in ``docs/images`` when asked for by DSH_TOOLS_IMAGES=1."""
    folder = IMAGES if os.environ.get("DSH_TOOLS_IMAGES") == "1" else tmp_path

    async def keep(target: Any, name: str) -> Path:
        folder.mkdir(exist_ok=True)
        path = folder / f"inspector-{name}.png"
        await target.screenshot(path=str(path), animations="disabled")
        assert path.stat().st_size > 1000
        return path

    return keep
