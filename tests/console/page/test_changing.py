"""What people change by the page, in a real browser: records they write, and groups they reset."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

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
_TOPIC = "changed-topic"
_DESCRIBE = 8
_GROUP = "changed <b onclick=alert(3)>x</b>"


def _fill(address: str) -> None:
    with drumlin.connect(address) as client:
        client.create_topic(_TOPIC, 2)
        rows = {"value": [f"v{i // 2}" for i in range(200)], "timestamp": list(range(200))}
        client.append(
            pa.table(rows), _TOPIC, partition=lambda table, _: pa.array([0, 1] * (len(table) // 2))
        )
        client.commit_offsets(_GROUP, {(_TOPIC, 0): 40, (_TOPIC, 1): 60})


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


def _open(page: Page, path: str, heading: str) -> None:
    page.evaluate("(path) => { location.hash = path; }", path)
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


def _accessible(page: Page) -> None:
    found = Axe().run(page)
    assert found.response["passes"], "it has looked"
    assert found.violations_count == 0, found.generate_report()


def _write(page: Page) -> None:
    """A hostile record with a header, and then a tombstone of its key."""
    _open(page, f"#/topic/{_TOPIC}/write", _TOPIC)
    page.get_by_label("Partition", exact=True).select_option("1")
    page.get_by_label("Key is", exact=True).select_option("text")
    page.get_by_label("Key", exact=True).fill(_EVIL)
    page.get_by_label("Value is", exact=True).select_option("json")
    page.get_by_label("Value", exact=True).fill("{")
    page.get_by_role("button", name="Write the record").click()
    expect(page.get_by_role("alert")).to_contain_text("value: not JSON")
    page.get_by_label("Value", exact=True).fill(f'{{"n": "{_EVIL}"}}')
    page.get_by_role("button", name="Add a header").click()
    page.get_by_label("Header", exact=True).fill(_EVIL)
    page.get_by_label("Its value is", exact=True).select_option("hex")
    page.get_by_label("Its value", exact=True).fill("ff00")
    _accessible(page)
    page.get_by_role("button", name="Write the record").click()
    expect(page.get_by_role("link", name="partition 1, offset 100")).to_be_visible()
    page.get_by_label("Value is", exact=True).select_option("null")
    page.get_by_role("button", name="Write the record").click()
    page.get_by_role("link", name="partition 1, offset 101").click()
    expect(page.get_by_text("null (a tombstone)")).to_be_visible()
    _open(page, f"#/topic/{_TOPIC}/records?partition=1&offset=100", _TOPIC)
    page.locator(".list button.open").first.click()
    expect(page.locator("pre").first).to_have_text(_EVIL)
    expect(page.get_by_text(f"Header {_EVIL}: 2 B")).to_be_visible()
    expect(page.locator("main img, main script")).to_have_count(0)


def _reset(page: Page) -> None:
    """A reset that is previewed, done, and seen on the group's page."""
    _open(page, "#/groups", "Groups")
    page.get_by_role("link", name=_GROUP).click()
    page.get_by_role("link", name="Reset its offsets").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Reset {_GROUP}")
    button = page.get_by_role("button", name="Reset as shown")
    expect(button).to_be_disabled()
    page.get_by_label("Reset to").select_option("shift")
    page.get_by_label("Offsets").fill("-50")
    page.get_by_role("button", name="Preview").click()
    rows = page.locator(".list .rows .row:not([hidden])")
    expect(rows).to_have_count(2)
    shown = [rows.nth(each).locator("> *").all_inner_texts()[2:] for each in (0, 1)]
    assert shown[0] == ["40", "0", "0", "40", "-10 is outside the log: its start"]
    assert shown[1] == ["60", "10", "0", "50", ""]
    _accessible(page)
    page.get_by_label("Offsets").fill("-51")
    expect(button).to_be_disabled()
    page.get_by_label("Offsets").fill("-50")
    page.get_by_role("button", name="Preview").click()
    button.click()
    expect(page.get_by_text("2 offsets are reset")).to_be_visible()
    page.get_by_role("link", name="The group now").click()
    cells = page.locator(".list .rows .row:not([hidden]) > :nth-child(3)")
    expect(cells).to_have_text(["0", "10"])


def test_a_record_is_written(filled: ConsoleProcess, open_page: OpenPage) -> None:
    _write(open_page(filled))


def test_a_group_is_reset_as_shown(filled: ConsoleProcess, open_page: OpenPage) -> None:
    _reset(open_page(filled))


def test_a_group_that_has_changed_is_planned_anew(
    filled: ConsoleProcess, broker: SecuredDrumlin, open_page: OpenPage
) -> None:
    with drumlin.connect(broker.address) as client:
        client.commit_offsets("changed-since", {(_TOPIC, 0): 5})
        page = open_page(filled, "#/group/changed-since/reset")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_text("Nothing is changed yet.")).to_be_visible()
        client.commit_offsets("changed-since", {(_TOPIC, 0): 6})
        page.get_by_role("button", name="Reset as shown").click()
        expect(page.get_by_role("alert")).to_contain_text("committed 6 now, and had committed 5")
        expect(page.get_by_role("button", name="Reset as shown")).to_be_disabled()
        assert client.committed_offsets("changed-since")[_TOPIC, 0].offset == 6


@pytest.mark.kafka
def test_changes_on_kafka(on_kafka: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(on_kafka)
    _write(page)
    _reset(page)


def test_buttons_say_what_a_user_may_not_do(
    filled: ConsoleProcess,
    broker: SecuredDrumlin,
    login_console: ConsoleProcess,
    open_page: OpenPage,
) -> None:
    rights = {"principal": "User:alice", "host": "*", "permission_type": 3, "operation": _DESCRIBE}
    rights |= {"resource_pattern_type": 3}
    places = ((2, _TOPIC), (3, "changed-unmoved"))
    with broker.connect() as raw, drumlin.connect(broker.address) as client:
        client.commit_offsets("changed-unmoved", {(_TOPIC, 0): 5})
        creations = [rights | {"resource_type": k, "resource_name": n} for k, n in places]
        raw.ask("create_acls", 3, creations=creations)
    page = open_page(login_console)
    page.get_by_label("User of the cluster").fill("alice")
    page.get_by_label("Password").fill("alice")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
    _open(page, f"#/topic/{_TOPIC}/write", _TOPIC)
    expect(page.get_by_text("this user has no right to write here")).to_be_visible()
    expect(page.get_by_role("button", name="Write the record")).to_be_disabled()
    _open(page, "#/group/changed-unmoved/reset", "Reset changed-unmoved")
    expect(page.get_by_text("this user has no right to it (READ on the group)")).to_be_visible()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("Nothing is changed yet.")).to_be_visible()
    expect(page.get_by_role("button", name="Reset as shown")).to_be_disabled()


def test_read_only_is_told(
    filled: ConsoleProcess,
    broker: SecuredDrumlin,
    open_page: OpenPage,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("read-only")
    with running_console(directory, "--bootstrap", broker.address, "--read-only") as console:
        page = open_page(console)
        expect(page.locator("#who")).to_contain_text("read-only")
        _open(page, f"#/topic/{_TOPIC}/write", _TOPIC)
        expect(page.get_by_text("Not from here: this console is read-only.")).to_be_visible()
        expect(page.get_by_role("button", name="Write the record")).to_be_disabled()
        _accessible(page)
        _open(page, f"#/group/{quote(_GROUP, safe='')}/reset", f"Reset {_GROUP}")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_text("Nothing is changed yet.")).to_be_visible()
        expect(page.get_by_role("button", name="Reset as shown")).to_be_disabled()
        expect(page.get_by_text("A preview only: this console is read-only.")).to_be_visible()
