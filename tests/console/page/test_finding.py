"""Records found by their values, and shown by a registry's schemas, in a real browser."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from fastavro import parse_schema, schemaless_writer
from playwright.sync_api import Page, expect

import drumlin
from console.conftest import running_console
from console.console_process import ConsoleProcess
from console.page.conftest import OpenPage
from drumlin.client.values.framing import header
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.servers.schema_registry import RegistryRig

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]

_EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
_TOPIC = "found-topic"
_ORDER = {
    "type": "record",
    "name": "Order",
    "doc": _EVIL,
    "fields": [{"name": "n", "type": "long"}, {"name": "who", "type": "string"}],
}


def _fill(address: str, registry: RegistryRig) -> None:
    """1,200 records as JSON in two partitions, one by a schema, and one whose schema is absent."""
    encoded = io.BytesIO()
    schemaless_writer(encoded, parse_schema(_ORDER), {"n": 5_000, "who": _EVIL})
    schema_id = registry.add(f"{_TOPIC}-value", _ORDER)
    with drumlin.connect(address) as client:
        client.create_topic(_TOPIC, 2)
        values = [f'{{"n": {each // 2}}}' for each in range(1_200)]
        client.append(
            pa.table({"value": values}),
            _TOPIC,
            partition=lambda table, _: pa.array([0, 1] * (len(table) // 2)),
        )
        with client.writer(_TOPIC) as writer:
            writer.send(header(schema_id) + encoded.getvalue(), key=_EVIL, partition=1)
            writer.send(header(999) + b"x", key="absent", partition=1)


@pytest.fixture(scope="module")
def filled(
    broker: SecuredDrumlin, registry: RegistryRig, open_console: ConsoleProcess
) -> ConsoleProcess:
    _fill(broker.address, registry)
    return open_console


@pytest.fixture(scope="module")
def on_kafka(
    kafka_address: str, registry: RegistryRig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    _fill(kafka_address, registry)
    directory = tmp_path_factory.mktemp("kafka-console")
    arguments = ("--bootstrap", kafka_address, "--registry", registry.url)
    with running_console(directory, *arguments) as console:
        yield console


def _open(page: Page, path: str) -> None:
    page.evaluate("(path) => { location.hash = path; }", path)
    expect(page.get_by_role("heading", level=1)).to_have_text(_TOPIC)


def _accessible(page: Page) -> None:
    found = Axe().run(page)
    assert found.response["passes"], "it has looked"
    assert found.violations_count == 0, found.generate_report()


def _rows(page: Page) -> list[list[str]]:
    rows = page.locator(".list .rows .row:not([hidden])")
    return [each.locator("> *").all_inner_texts() for each in rows.all()]


def _find(page: Page) -> None:
    _open(page, f"#/topic/{_TOPIC}/find")
    _accessible(page)
    page.get_by_label("Where").fill("value.n >= 599\nvalue.n < 6000")
    page.get_by_role("button", name="Look").click()
    expect(
        page.get_by_text("3 found; looked at 1,202 records, 1,202 of 1,202 offsets")
    ).to_be_visible()
    expect(page.get_by_text("all is looked through")).to_be_visible()
    _accessible(page)
    assert [row[:2] for row in _rows(page)] == [["0", "599"], ["1", "599"], ["1", "600"]]
    assert _rows(page)[2][4] == f'{{"n": 5000, "who": "{_EVIL}"}}'
    page.get_by_role("button", name="600").click()
    expect(page.get_by_text("by schema")).to_be_visible()
    expect(page.locator("pre").nth(1)).to_contain_text(f'"who": "{_EVIL}"')
    expect(page.locator("main img, main script")).to_have_count(0)
    page.get_by_label("Where").fill(f"value.{_EVIL}=1")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_role("alert")).to_be_visible()


def _find_many(page: Page) -> None:
    """More than a page of them; and what is found is not more, if someone goes on."""
    page.get_by_label("Where").fill("")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_text("500 found")).to_be_visible()
    expect(page.get_by_text("there may be more")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("1,000 found")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("1,202 found; looked at 1,202 records")).to_be_visible()
    expect(page.get_by_role("button", name="Go on")).to_be_disabled()


def test_records_are_found(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled)
    _find(page)
    _find_many(page)


@pytest.mark.kafka
def test_records_are_found_on_kafka(on_kafka: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(on_kafka)
    _find(page)
    _find_many(page)


def test_a_search_is_stopped(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled)
    _open(page, f"#/topic/{_TOPIC}/find")

    def slowly(route: object) -> None:
        page.wait_for_timeout(300)
        route.continue_()  # type: ignore[attr-defined]

    page.route("**/api/filter*", slowly)
    page.get_by_label("Where").fill("key=nobody")
    page.get_by_role("button", name="Look").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("0 found; looked at 600 records")).to_be_visible()
    expect(page.get_by_text("stopped")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("all is looked through")).to_be_visible()


def test_what_is_not_decoded_says_why(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled, f"#/topic/{_TOPIC}/records?partition=1&offset=600")
    page.get_by_role("button", name="601").click()
    expect(page.get_by_text("not decoded: the schema registry has no schema 999")).to_be_visible()
    page.get_by_role("button", name="600").click()
    expect(page.locator("pre").nth(1)).to_contain_text('"n": 5000')
    page.get_by_label("Format").select_option("hex")
    page.get_by_role("button", name="600").click()
    expect(page.locator("pre").nth(1)).to_contain_text("00000000  00 00 00 00")
    page.get_by_label("Format").select_option("auto")
    _open(page, f"#/topic/{_TOPIC}/key")
    page.get_by_label("Key", exact=True).fill(_EVIL)
    page.get_by_role("button", name="Look").click()
    expect(page.locator(".latest")).to_contain_text(
        f'Latest value: {{"n": 5000, "who": "{_EVIL}"}}'
    )


def test_a_value_is_written_by_a_schema(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled, f"#/topic/{_TOPIC}/write")
    page.get_by_label("Value is", exact=True).select_option("schema")
    expect(page.get_by_label("Subject of the value")).to_have_value(f"{_TOPIC}-value")
    page.get_by_label("Partition", exact=True).select_option("0")
    page.get_by_label("Value", exact=True).fill('{"n": "many"}')
    page.get_by_role("button", name="Write the record").click()
    expect(page.get_by_role("alert")).to_contain_text("does not fit the schema")
    page.get_by_label("Value", exact=True).fill('{"n": 7, "who": "me"}')
    _accessible(page)
    page.get_by_role("button", name="Write the record").click()
    page.get_by_role("link", name="partition 0, offset 600").click()
    expect(page.get_by_text('{"n": 7, "who": "me"}')).to_be_visible()
