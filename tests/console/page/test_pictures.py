"""Pictures of the console for the documents, of a broker with something to see.

`script/console_pictures` has them written to docs/pictures.
"""

from __future__ import annotations

import os
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import drumlin
from console.conftest import running_console
from console.console_process import ConsoleProcess
from console.page.conftest import OpenPage
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.data.compacted_topic import ask_operator, create, produce

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]

_SETTINGS = {"log.cleaner.backoff.ms": "600000", "log.cleaner.min.compaction.lag.ms": "0"}
_BYTES_MAX = 60 << 10
_SIZE = {"width": 1000, "height": 620}
_GROUP = "customers-cache"
_TOPIC = "customers"


@pytest.fixture(scope="module")
def shown(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[DrumlinServer, ConsoleProcess]]:
    with running_server(tmp_path_factory.mktemp("pictured"), _SETTINGS) as server:
        create(server.address, _TOPIC, partitions=3, min_cleanable_dirty_ratio="0.6")
        produce(server.address, _TOPIC)
        ask_operator(server.data, "POST /compaction/run", f'{{"topic": "{_TOPIC}", "roll": false}}')
        produce(server.address, _TOPIC, rounds=6, first_round=20)
        with drumlin.connect(server.address) as client:
            with client.writer(_TOPIC) as writer:
                for number in range(400):
                    writer.send("x" * 60, key=f"key-{number}", partition=1 + number % 2)
                    if number % 80 == 0:
                        writer.flush()
            client.commit_offsets(_GROUP, {(_TOPIC, 0): 200})
        arguments = ("--bootstrap", server.address, "--data", str(server.data))
        with running_console(tmp_path_factory.mktemp("console"), *arguments) as console:
            yield server, console


def _lag(page: Page, server: DrumlinServer) -> None:
    """A group that catches up, and falls behind again."""
    page.evaluate(f"() => {{ location.hash = '#/group/{_GROUP}'; }}")
    expect(page.get_by_role("heading", level=1)).to_have_text(_GROUP)
    with drumlin.connect(server.address) as client:
        for offset in (350, 900, 1300, 1500, 1450, 1700, 2000, 1800):
            client.commit_offsets(_GROUP, {(_TOPIC, 0): offset})
            page.keyboard.press("r")
            page.wait_for_timeout(500)
    expect(page.get_by_role("img", name="Lag:")).to_be_visible()


def _cleaning(page: Page, _: DrumlinServer) -> None:
    page.evaluate(f"() => {{ location.hash = '#/topic/{_TOPIC}/cleaning'; }}")
    page.get_by_role("button", name="What would the next cleaning free?").first.click()
    expect(page.get_by_text("Would free")).to_be_visible()


_PICTURES: dict[str, Callable[[Page, DrumlinServer], None]] = {
    "console-cleaning": _cleaning,
    "console-lag": _lag,
}


@pytest.mark.parametrize("name", _PICTURES)
def test_a_picture_can_be_taken(
    name: str,
    shown: tuple[DrumlinServer, ConsoleProcess],
    open_page: OpenPage,
    tmp_path: Path,
) -> None:
    server, console = shown
    page = open_page(console, dark=name == "console-lag")
    page.set_viewport_size(_SIZE)
    _PICTURES[name](page, server)
    page.evaluate("() => document.activeElement?.blur()")
    time.sleep(0.5)  # the width of bars moves
    told = {"format": "webp", "quality": 75}
    data = b64decode(
        page.context.new_cdp_session(page).send("Page.captureScreenshot", told)["data"]
    )
    folder = Path(os.environ.get("DRUMLIN_PICTURES", tmp_path))
    (folder / f"{name}.webp").write_bytes(data)
    assert (data[:4], data[8:12]) == (b"RIFF", b"WEBP")
    assert 5_000 < len(data) <= _BYTES_MAX
