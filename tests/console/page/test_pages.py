"""The page as people use it, in a real browser, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import drumlin
from console.conftest import running_console
from console.console_process import ConsoleProcess
from console.page.conftest import OpenPage
from rig.brokers.secured_drumlin import SecuredDrumlin

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]

_EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
_TOPIC = "shown-topic"
_PAGES = {
    "#/cluster": "Cluster",
    "#/broker/1": "Broker 1",
    "#/topics": "Topics",
    f"#/topic/{_TOPIC}": _TOPIC,
    f"#/topic/{_TOPIC}/records": _TOPIC,
    f"#/topic/{_TOPIC}/key": _TOPIC,
    f"#/topic/{_TOPIC}/find": _TOPIC,
    f"#/topic/{_TOPIC}/write": _TOPIC,
    f"#/topic/{_TOPIC}/configuration": _TOPIC,
    f"#/topic/{_TOPIC}/cleaning": _TOPIC,
    "#/groups": "Groups",
    "#/group/shown-group": "shown-group",
    "#/group/shown-group/reset": "Reset shown-group",
    "#/share": "Share groups",
    "#/transactions": "Transactions",
    "#/access": "Access",
    "#/nothing": "Not shown",
}


def _fill(address: str) -> None:
    """A compacted topic with hostile records, and a group."""
    with drumlin.connect(address) as client:
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}  # never cleaned
        client.create_topic(_TOPIC, 2, configs=configs)
        rows = {"key": [f"user{i % 7}" for i in range(140)], "value": [f"v{i}" for i in range(140)]}
        client.append(pa.table({**rows, "timestamp": list(range(140))}), _TOPIC)
        with client.writer(_TOPIC) as writer:
            for partition in (0, 1):  # which closes the segments of records of 1970
                writer.send("now", key="now", partition=partition)
            json = '{"n": 12345678901234567890, "a": [1, {}], "s": "x:{,}"}'
            writer.send(_EVIL.encode(), key=_EVIL.encode(), headers=[(_EVIL, b"\xff")])
            writer.send(json.encode(), key=b"json")
        client.commit_offsets("shown-group", {(_TOPIC, 0): 1, (_TOPIC, 1): 2})
        client.commit_offsets(_EVIL, {(_TOPIC, 0): 1})


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
        found = axe.run(page)
        assert found.response["passes"], "it has looked"
        assert found.violations_count == 0, (path, found.generate_report())


@pytest.mark.kafka
def test_every_page_is_there_on_kafka(on_kafka: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(on_kafka)
    broker = page.locator(".list .rows a").first.inner_text()
    for path, heading in _PAGES.items():
        if path == "#/broker/1":
            path, heading = f"#/broker/{broker}", f"Broker {broker}"
        _go(page, path, heading)
        expect(page.get_by_role("alert")).to_have_count(1 if heading == "Not shown" else 0)
    _go(page, f"#/topic/{_TOPIC}/cleaning", _TOPIC)
    expect(page.get_by_text("Brokers of Apache Kafka do not tell")).to_be_visible()
    _search(page, "user3")
    expect(page.locator(".latest")).to_have_text("Latest value: v136")


def _search(page: Page, key: str) -> None:
    _go(page, f"#/topic/{_TOPIC}/key", _TOPIC)
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_text("all partitions are looked through")).to_be_visible()


def test_the_latest_value_of_a_key(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled)
    _search(page, "user3")
    expect(page.locator(".latest")).to_have_text("Latest value: v136")
    values = page.locator(".list .rows .row:not([hidden]) > :nth-child(4)").all_inner_texts()
    assert values[:3] == ["v136", "v129", "v122"]
    _search(page, "nobody")
    expect(page.get_by_text("0 records of this key")).to_be_visible()


def test_a_key_in_two_partitions_has_two_latest_values(
    filled: ConsoleProcess, broker: SecuredDrumlin, open_page: OpenPage
) -> None:
    with drumlin.connect(broker.address) as client, client.writer(_TOPIC) as writer:
        for partition in (0, 1):
            writer.send(f"in {partition}", key="everywhere", partition=partition)
    page = open_page(filled)
    _search(page, "everywhere")
    expect(page.locator(".latest")).to_contain_text("Several partitions have this key.")
    expect(page.locator(".latest")).to_contain_text("Latest value in 0: in 0")
    expect(page.locator(".latest")).to_contain_text("Latest value in 1: in 1")


def test_what_is_hostile_is_text(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled)
    _search(page, _EVIL)
    expect(page.locator(".latest")).to_have_text(f"Latest value: {_EVIL}")
    page.locator(".list button.open").first.click()
    expect(page.locator("pre").first).to_have_text(_EVIL)
    expect(page.get_by_text(f"Header {_EVIL}")).to_be_visible()
    _go(page, "#/groups", "Groups")
    page.get_by_role("link", name=_EVIL, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(_EVIL)
    expect(page.locator("main img, main script")).to_have_count(0)


def test_json_keeps_its_numbers(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled)
    _search(page, "json")
    page.locator(".list button.open").first.click()
    expect(page.locator("pre").nth(1)).to_contain_text('"n": 12345678901234567890,')
    assert page.locator("pre").nth(1).inner_text().splitlines() == [
        "{",
        '  "n": 12345678901234567890,',
        '  "a": [',
        "    1,",
        "    {}",
        "  ],",
        '  "s": "x:{,}"',
        "}",
    ]
    page.get_by_label("Format").select_option("hex")
    page.locator(".list button.open").first.click()
    expect(page.locator("pre").nth(1)).to_contain_text("00000000  7b 22 6e 22 3a 20 31 32")


def test_records_from_an_offset(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled, f"#/topic/{_TOPIC}/records?partition=1")
    page.get_by_label("From", exact=True).select_option("offset")
    page.get_by_label("Offset", exact=True).fill("5")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.locator(".list .rows button").first).to_have_text("5")
    page.get_by_label("From", exact=True).select_option("time")
    page.get_by_label("Time (UTC)").fill("2030-01-01T00:00:00")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.get_by_text("no records here")).to_be_visible()


def test_the_keyboard_is_enough(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled, "#/topics")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.keyboard.press("/")
    page.keyboard.type("shown-")
    rows = page.locator(".list .rows .row:not([hidden])")
    expect(rows).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name=_TOPIC)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(_TOPIC)
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_what_a_cleaning_would_free(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled, f"#/topic/{_TOPIC}/cleaning")
    expect(page.get_by_role("img", name="Partition 0: tail")).to_be_visible()
    page.get_by_role("button", name="What would the next cleaning free?").first.click()
    expect(page.get_by_text("Would free")).to_contain_text("superseded; 0 tombstones stay")
    expect(page.get_by_role("img", name="would free")).to_be_visible()


def test_a_long_list_has_only_the_rows_in_sight(
    filled: ConsoleProcess, open_page: OpenPage
) -> None:
    page = open_page(filled)
    row = {"is_internal": False, "partitions": 1, "replicas": 1, "under_replicated": 0}
    row |= {"offline": 0, "offsets": 1, "end_offsets": 1, "size_bytes": 1}
    rows = [{"name": f"topic-{i:05}", **row} for i in range(10_000)]
    page.route("**/api/topics*", lambda route: route.fulfill(json={"topics": rows, "not_shown": 0}))
    _go(page, "#/topics", "Topics")
    table = page.get_by_role("table", name="Topics")
    expect(table).to_have_attribute("aria-rowcount", "10001")
    assert page.locator(".list .rows .row").count() < 60
    page.locator(".list .scroller").evaluate("(element) => { element.scrollTop = 1e9; }")
    expect(page.get_by_role("link", name="topic-09999")).to_be_visible()
    assert page.locator(".list .rows .row").count() < 60


def test_logging_in_and_out(login_console: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(login_console)
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    assert Axe().run(page).violations_count == 0
    page.get_by_label("User of the cluster").fill("root")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("do not let 'root' in")
    page.get_by_label("Password").fill("root")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
    expect(page.locator("#who")).to_contain_text("root @")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    page.evaluate("() => { location.hash = '#/topics'; }")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_dark_and_light_are_chosen(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled)
    ground = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(ground) == "rgb(20, 24, 28)"
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate(ground) == "rgb(20, 24, 28)"
