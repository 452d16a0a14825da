"""The page's ways in beside names and passwords: a token, and the key of a console for one user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from console.conftest import running_console
from console.console_process import ConsoleProcess
from console.page.conftest import OpenPage
from console.tokens import unsigned_token
from rig.brokers.secured_drumlin import SecuredDrumlin

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]


def test_a_token_is_pasted(broker: SecuredDrumlin, tmp_path: Path, open_page: OpenPage) -> None:
    where = ("--bootstrap", f"127.0.0.1:{broker.login_port}", "--login", "oauthbearer")
    with running_console(tmp_path, *where) as console:
        page = open_page(console)
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        assert Axe().run(page).violations_count == 0
        page.get_by_label("Token").fill("no token")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("no bearer token")
        page.get_by_label("Token").fill(f"\n{unsigned_token('root', 20)} ")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
        expect(page.locator("#who")).to_contain_text("root @")
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_have_text("Log in", timeout=60_000)  # it looks again by itself


def test_the_key_comes_with_the_address(
    broker: SecuredDrumlin, tmp_path: Path, open_page: OpenPage
) -> None:
    with running_console(tmp_path, "--bootstrap", broker.address, "--single-user") as console:
        found = re.search(r"/(#key=\S+)", console.said())
        assert found is not None
        page = open_page(console, found[1])
        expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
        assert "key" not in page.url
        stranger = open_page(console)
        expect(stranger.get_by_role("heading", level=1)).to_have_text("Log in")
        assert Axe().run(stranger).violations_count == 0
        stranger.get_by_label("Key of this console").fill("x" * 43)
        stranger.keyboard.press("Enter")
        expect(stranger.get_by_role("alert")).to_contain_text("not the key")


def test_all_tabs_are_one_user(login_console: ConsoleProcess, open_page: OpenPage) -> None:
    first = open_page(login_console)

    def log_in(page: Page, user: str) -> None:
        page.get_by_label("User of the cluster").fill(user)
        page.get_by_label("Password").fill(user)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#who")).to_contain_text(f"{user} @")

    log_in(first, "root")
    second = first.context.new_page()
    second.goto(login_console.url)
    expect(second.locator("#who")).to_contain_text("root @")
    second.get_by_role("button", name="Log out").click()
    expect(first.get_by_role("heading", level=1)).to_have_text("Log in")
    log_in(second, "bob")
    expect(first.locator("#who")).to_contain_text("bob @")
    expect(first.locator("#who")).to_contain_text("read-only")
