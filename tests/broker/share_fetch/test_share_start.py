"""Where a share group begins is chosen once, even before anything is acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.share_fetch.test_share_fetch import Group
from rig.brokers.drumlin_server import DrumlinServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path, {"share.coordinator.state.topic.num.partitions": "1"})
    server.start()
    try:
        yield server
        server.check_output()
    finally:
        server.close()


@pytest.mark.parametrize("pause", ["the member leaves", "the broker is killed"])
def test_what_comes_while_the_only_member_is_away_is_delivered(
    server: DrumlinServer, pause: str
) -> None:
    group = Group(server, "t", "g", start_offset=-1)
    group.produce(b"before")
    member = group.member("m")
    assert member.fetch() == []  # the group begins after what is there: `latest`
    if pause == "the member leaves":
        member.leave()
    else:
        server.kill()
        server.start()
    group.produce(b"a", b"b")
    assert group.member("m").fetch_until(2) == [(1, 2, 1)]
