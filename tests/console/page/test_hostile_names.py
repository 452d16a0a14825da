"""Names that anyone may choose, on every page that shows them: text, all of which is seen."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import drumlin
from console.console_process import ConsoleProcess
from console.page.conftest import OpenPage
from console.pipelines import QUERY, capture, decide
from drumlin.capture.changes import Table
from drumlin.capture.log.position import Counts
from drumlin.client.client import Client
from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.content import Content
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.state import changelog_format
from rig.brokers.secured_drumlin import SecuredDrumlin

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]

#: Markup, a way out of an attribute, and letters that turn what follows around.
_EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>\u202e\u2066/?#%2e%00\u00ad"
_SHOWN = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>\\u202e\\u2066/?#%2e%00\\u00ad"
_TOPIC = "hostile-topic"
_SINK = f"{QUERY}.{_TOPIC}"
_CHANGELOG = "hostile-state-changelog"


def _fill(broker: SecuredDrumlin, client: Client) -> None:
    client.create_topic(_TOPIC, 1, configs={"cleanup.policy": "compact"})
    with client.writer(_TOPIC) as writer:
        writer.send(b"v", key=b"k")
    client.commit_offsets(_EVIL, {(_TOPIC, 0): 2**63 - 1})
    state = SinkState(QUERY, 7, _EVIL, content=Content(41, "ab" * 16, ""), ends=_EVIL)
    decide(client, _SINK, state)
    with client.writer(names.DECISION_TOPIC) as writer:
        writer.send(_EVIL.encode(), key="unreadable")
    table = Table(1, _EVIL, _EVIL, "hostile.public.item", ("id",), ("integer",))
    capture(client, "hostile", [table], Counts(1_000, 12, 3, 0, 1_700_000_000_000))
    client.create_topic(_CHANGELOG, 1, configs={"cleanup.policy": "compact"})
    position = changelog_format.Position(_EVIL, _EVIL, _EVIL, 3)
    with client.writer(_CHANGELOG) as writer:
        value = changelog_format.position_value([position], _EVIL)
        writer.send(value, key=changelog_format.POSITION_KEY)
    acl = {"principal": f"User:{_EVIL}", "host": "*", "permission_type": 3, "operation": 3}
    acl |= {"resource_type": 3, "resource_name": _EVIL, "resource_pattern_type": 3}
    with broker.connect() as raw:
        raw.ask("create_acls", 3, creations=[acl])
        entity = [{"entity_type": "user", "entity_name": _EVIL}]
        ops = [{"key": "consumer_byte_rate", "value": 1e6, "remove": False}]
        raw.ask(
            "alter_client_quotas", 1, entries=[{"entity": entity, "ops": ops}], validate_only=False
        )


@pytest.fixture(scope="module")
def filled(broker: SecuredDrumlin, open_console: ConsoleProcess) -> Iterator[ConsoleProcess]:
    with drumlin.connect(broker.address, client_id=_EVIL) as client:
        _fill(broker, client)
        with client.transaction(_EVIL) as transaction:
            transaction.append(pa.table({"key": ["k"], "value": ["open"]}), _TOPIC)
            yield open_console


@pytest.mark.parametrize("dark", [False, True])
def test_hostile_names_are_text_that_is_seen(
    filled: ConsoleProcess, open_page: OpenPage, dark: bool
) -> None:
    page = open_page(filled, dark=dark)
    axe = Axe()
    evil = quote(_EVIL, safe="")
    for path, heading, place in (
        ("#/groups", "Groups", ".list"),
        (f"#/group/{evil}", _SHOWN, "h1"),
        (f"#/group/{evil}/reset", f"Reset {_SHOWN}", "h1"),
        ("#/transactions", "Transactions", ".list"),
        ("#/access", "Access", ".list >> nth=1"),
        ("#/access", "Access", ".list >> nth=2"),
        (f"#/sink/{_SINK}", _SINK, ".figures"),
        (f"#/sink/{_SINK}", _SINK, "pre"),
        ("#/capture/hostile", "hostile", ".list"),
        ("#/pipelines/states", "States", ".list"),
        (f"#/state/{_CHANGELOG}", _CHANGELOG, "main"),
        ("#/pipelines/followers", "Followers", ".list"),
        (f"#/topic/{evil}", "Not shown", "[role=alert]"),
        (f"#/topic/{evil}/write", "Not shown", "[role=alert]"),
        (f"#/sink/{evil}", "Not shown", "[role=alert]"),
        (f"#/capture/{evil}", "Not shown", "[role=alert]"),
        (f"#/state/{evil}", "Not shown", "[role=alert]"),
        (f"#/broker/{evil}", "Not shown", "main"),
        (f"#/{evil}", "Not shown", "[role=alert]"),
    ):
        page.evaluate("(path) => { location.hash = path; }", path)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        if place != "main":
            expect(page.locator(place).first, path).to_contain_text("onerror=alert(1)")
            expect(page.locator(place).first, path).to_contain_text("\\u202e")
        text = page.locator("main").inner_text() + page.title()
        assert not any(each in text for each in "\u202e\u2066\u00ad"), path
        expect(page.locator("main img, main script")).to_have_count(0)
        found = axe.run(page)
        assert found.violations_count == 0, (path, found.generate_report())


def test_a_hostile_group_is_reset(
    filled: ConsoleProcess, broker: SecuredDrumlin, open_page: OpenPage
) -> None:
    """What is asked for is the name, not what is shown of it; an offset has all its digits."""
    page = open_page(filled, f"#/group/{quote(_EVIL, safe='')}/reset")
    page.get_by_label("Reset to").select_option("latest")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("Nothing is changed yet.")).to_be_visible()
    expect(page.locator(".list")).to_contain_text("9,223,372,036,854,775,807")
    page.get_by_role("button", name="Reset as shown").click()
    expect(page.get_by_text("1 offsets are reset")).to_be_visible()
    with drumlin.connect(broker.address) as client:
        assert client.committed_offsets(_EVIL)[_TOPIC, 0].offset in range(1, 10)


def test_hostile_subjects_are_text(filled: ConsoleProcess, open_page: OpenPage) -> None:
    page = open_page(filled, f"#/topic/{_TOPIC}/write")
    page.get_by_label("Value is", exact=True).select_option("schema")
    page.get_by_label("Subject of the value").fill(_EVIL)
    page.get_by_label("Value", exact=True).fill("{}")
    page.get_by_role("button", name="Write the record").click()
    expect(page.get_by_role("alert")).to_contain_text("value: ")
    expect(page.locator("main img, main script")).to_have_count(0)
