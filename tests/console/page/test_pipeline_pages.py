"""The pages of sinks, captures, states and followers, and numbers over time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import drumlin
from console.conftest import running_console
from console.console_process import ConsoleProcess
from console.page.conftest import OpenPage
from console.pipelines import QUERY, fill_pipelines
from rig.brokers.secured_drumlin import SecuredDrumlin

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]

_SINK = f"{QUERY}.piped-topic"
_PAGES = {
    "#/pipelines": "Sinks",
    "#/pipelines/captures": "Captures",
    "#/pipelines/states": "States",
    "#/pipelines/followers": "Followers",
    f"#/sink/{_SINK}": _SINK,
    "#/capture/piped": "piped",
    "#/state/piped-totals-sums-changelog": "piped-totals-sums-changelog",
    "#/group/piped-cache": "piped-cache",
    "#/topic/piped-topic": "piped-topic",
}


def _fill(address: str) -> None:
    with drumlin.connect(address) as client:
        client.create_topic("piped-topic", 1, configs={"cleanup.policy": "compact"})
        with client.writer("piped-topic") as writer:
            for number in range(30):
                writer.send(str(number), key=str(number))
        fill_pipelines(client, "piped")
        client.commit_offsets("piped-cache", {("piped-topic", 0): 10})


@pytest.fixture(scope="module")
def filled(broker: SecuredDrumlin, open_console: ConsoleProcess) -> ConsoleProcess:
    _fill(broker.address)
    return open_console


@pytest.fixture(scope="module")
def on_kafka(
    kafka_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    _fill(kafka_address)
    directory = tmp_path_factory.mktemp("kafka-console")
    with running_console(directory, "--bootstrap", kafka_address) as console:
        yield console


def _go(page: Page, path: str, heading: str) -> None:
    page.evaluate("(path) => { location.hash = path; }", path)
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


@pytest.mark.parametrize("dark", [False, True])
def test_every_page_is_accessible(filled: ConsoleProcess, open_page: OpenPage, dark: bool) -> None:
    page = open_page(filled, dark=dark)
    axe = Axe()
    for path, heading in _PAGES.items():
        _go(page, path, heading)
        page.keyboard.press("r")  # a second look: then charts have a line
        for each in page.locator("summary").all():
            each.click()
        found = axe.run(page)
        assert found.response["passes"], "it has looked"
        assert found.violations_count == 0, (path, found.generate_report())


def _all_is_told(page: Page) -> None:
    cell = page.locator(".list .rows .row:not([hidden]) > *")
    for path, heading in _PAGES.items():
        _go(page, path, heading)
        expect(page.get_by_role("alert")).to_have_count(0)
        if path != f"#/sink/{_SINK}":  # which has no open transactions
            expect(cell.first).to_be_visible()
    _go(page, "#/pipelines/sinks", "Sinks")
    page.get_by_role("link", name=_SINK).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(_SINK)
    expect(page.locator(".figures")).to_contain_text("done")
    page.get_by_role("link", name="piped-topic", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("piped-topic")
    _go(page, "#/capture/piped", "piped")
    expect(page.locator(".figures")).to_contain_text("16/B374D848")
    expect(page.locator(".bad")).to_have_text(["is being read"])
    _go(page, "#/state/piped-totals-sums-changelog", "piped-totals-sums-changelog")
    page.keyboard.press("r")
    expect(page.get_by_role("img", name="Lag: 20 now")).to_be_visible()


def test_all_is_told(filled: ConsoleProcess, open_page: OpenPage) -> None:
    _all_is_told(open_page(filled))


@pytest.mark.kafka
def test_all_is_told_of_kafka(on_kafka: ConsoleProcess, open_page: OpenPage) -> None:
    _all_is_told(open_page(on_kafka))


def test_lag_over_time(filled: ConsoleProcess, broker: SecuredDrumlin, open_page: OpenPage) -> None:
    page = open_page(filled, "#/groups")
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    _go(page, "#/group/piped-cache", "piped-cache")  # the list has seen it before
    expect(page.get_by_role("img", name="Lag: 20 now")).to_be_visible()
    with drumlin.connect(broker.address) as client:
        client.commit_offsets("piped-cache", {("piped-topic", 0): 25})
    page.keyboard.press("r")
    expect(page.get_by_role("img", name="Lag: 5 now, from 5 to 20")).to_be_visible()
    page.get_by_text("Lag as a table").click()
    expect(page.locator(".chart tbody tr").first).to_contain_text("5")
    expect(page.locator(".chart tbody tr").nth(1)).to_contain_text("20")


def test_nothing_is_asked_while_nobody_looks(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled, "#/group/piped-cache")
    expect(page.get_by_role("heading", level=1)).to_have_text("piped-cache")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    hide = """(isHidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    page.wait_for_timeout(7_000)  # a look would come every five seconds
    assert asked == []
    page.evaluate(hide, False)
    expect(page.locator("#status")).to_contain_text("as of")
    assert asked
