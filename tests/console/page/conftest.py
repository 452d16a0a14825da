"""A headless Chromium of this machine, and a page in it on which nothing may go wrong unseen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from console.console_process import ConsoleProcess

_WAIT_MS = 30_000
_PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")

OpenPage = Callable[..., Page]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        # Its sandbox does not work for root, nor in many containers; it loads our own pages only.
        expect.set_options(timeout=_WAIT_MS)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page of a console; what its script says of errors is an error at the end."""
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # Chromium says so of each response with a status of 400 or more.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            said.append(message.text)

    contexts = []

    def open_page(console: ConsoleProcess, path: str = "#/cluster", *, dark: bool = False) -> Page:
        scheme = "dark" if dark else "light"
        context = browser.new_context(color_scheme=scheme, ignore_https_errors=True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(_WAIT_MS)
        page.on("console", note)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append("a dialog"), dialog.dismiss()))
        page.goto(console.url + path)
        page.wait_for_selector("h1")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
