"""Only Produce may be as large as `socket.request.max.bytes`: others are closed at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drumlin.broker.apis.served import SERVED
from drumlin.broker.net.request_sizes import request_bytes_max
from drumlin.wire.frames import FrameReader
from drumlin.wire.messages import API_KEYS
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import Closed, RawClient

_SMALLEST = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path_factory.mktemp("server"), {})
    server.start()
    yield server
    server.close()
    server.check_output()


def _begin(client: RawClient, api: str, size: int) -> None:
    """The length and the header of a request, and nothing of its body."""
    header = API_KEYS[api].to_bytes(2, "big") + bytes(2)
    client.send_bytes(size.to_bytes(4, "big") + header)


@pytest.mark.parametrize("api", ["metadata", "offset_commit", "sync_group", "heartbeat"])
def test_too_large(server: DrumlinServer, api: str) -> None:
    limit = request_bytes_max(API_KEYS[api])
    assert limit is not None
    with server.connect() as client:
        _begin(client, api, limit + 1)
        with pytest.raises(Closed):
            client.receive_frame(20)


def test_every_api_has_a_limit_that_a_reader_can_enforce() -> None:
    """A small frame is taken as it is, whatever it may hold."""
    for api in SERVED:
        limit = request_bytes_max(API_KEYS[api])
        assert (limit is None) == (api == "produce")
        if limit is not None:
            assert _SMALLEST <= limit <= 32 << 20
            reader = FrameReader(100 << 20, limit_of=request_bytes_max)
            begun = limit.to_bytes(4, "big") + API_KEYS[api].to_bytes(2, "big")
            reader.writable()[:6] = begun
            assert reader.received(6) == []
            assert reader.announced_bytes == limit
