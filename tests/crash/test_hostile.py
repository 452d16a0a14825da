"""Peers that send rubbish, or too much, or never read: the others notice nothing."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
from collections.abc import Iterator

import psutil
import pytest

from crash.conftest import MakeServer
from crash.requests import create_topic, fetch, produce, read_all
from drumlin.wire.error_codes import ErrorCode, MalformedMessage
from drumlin.wire.messages import API_KEYS, encode_request
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import CODECS, Batch, batch, compress
from rig.data.messages import build
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.waiting import wait_until

_MIB = 1 << 20
_MAX_FRAME = 4 * _MIB
_GROWTH_MAX = 96 * _MIB
_HALF_OPEN = 2000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    """One for all: whatever was done to it before, it serves the next one."""
    limits = {
        "socket.request.max.bytes": str(_MAX_FRAME),
        "queued.max.request.bytes": str(16 * _MIB),
        # Else the kernel turns away clients that connect faster than a busy machine accepts.
        "socket.listen.backlog.size": "4000",
    }
    with contextlib.closing(DrumlinServer(tmp_path_factory.mktemp("hostile"), limits)) as started:
        started.start()
        with started.connect() as client:
            create_topic(client, "t", configs={"retention.ms": "-1"})
            assert produce(client, "t", batch(b"first")).error_code == ErrorCode.none
        yield started
    started.check_output()


def _memory(server: DrumlinServer) -> int:
    return int(psutil.Process(server.pid).memory_info().rss)


@contextlib.contextmanager
def _unharmed(server: DrumlinServer) -> Iterator[None]:
    """Another client, connected all the time, is served as before; the memory stays bounded."""
    with server.connect() as other:
        before, memory = len(read_all(other, "t")), _memory(server)
        yield
        assert produce(other, "t", batch(b"after")).error_code == ErrorCode.none
        assert len(read_all(other, "t")) == before + 1
    assert _memory(server) - memory < _GROWTH_MAX


def _is_closed(client: RawClient) -> bool:
    try:
        client.receive_frame(10)
    except Closed:
        return True
    except NoAnswer:
        return False
    return False


@pytest.mark.parametrize("size", [_MAX_FRAME + 1, 2**31 - 1, -1, -(2**31)])
def test_frame_size_out_of_bounds(server: DrumlinServer, size: int) -> None:
    with _unharmed(server), server.connect() as client:
        client.send_bytes(struct.pack(">i", size))
        assert _is_closed(client)
    wait_until(lambda: str(size) in server.said(), "the reason in the server's log")


def test_random_bytes(server: DrumlinServer) -> None:
    chance = random.Random(7)
    with _unharmed(server):
        for _ in range(200):
            with server.connect() as client, contextlib.suppress(Closed):
                client.send_bytes(chance.randbytes(chance.randint(1, 400)))
        for _ in range(200):
            with server.connect() as client, contextlib.suppress(Closed):
                client.send_frame(chance.randbytes(chance.randint(1, 400)))


def _advertised(server: DrumlinServer) -> list[tuple[str, int, int]]:
    names = {key: name for name, key in API_KEYS.items()}
    with server.connect() as client:
        answer = client.ask("api_versions", 0)
    ranges = {names[each.api_key]: (each.min_version, each.max_version) for each in answer.api_keys}
    ranges["produce"] = (3, ranges["produce"][1])  # below it is only advertised
    return [(api, low, high) for api, (low, high) in ranges.items()]


def test_random_bodies_and_huge_arrays(server: DrumlinServer) -> None:
    """A correct header of every version of every API, and then anything."""
    chance = random.Random(8)
    with _unharmed(server):
        for api, low, high in _advertised(server):
            for version in range(low, high + 1):
                head = struct.pack(">hhih", API_KEYS[api], version, 1, -1)
                for body in (
                    b"\x00" * 40,
                    b"\x7f\xff\xff\xff" * 10,
                    b"\x00" + b"\xff\xff\xff\xff\x07" * 8,
                    chance.randbytes(chance.randint(1, 200)),
                ):
                    with server.connect() as client, contextlib.suppress(Closed):
                        client.send_frame(head + body)


def test_damaged_requests(server: DrumlinServer) -> None:
    """Requests that are right save for some bytes, or an end that is missing."""
    chance = random.Random(9)
    with _unharmed(server):
        for api, low, high in _advertised(server):
            for version in {low, high}:
                message = build(api, version, {})
                whole = b"".join(encode_request(api, version, 1, "raw", message))[4:]
                for _ in range(5):
                    damaged = bytearray(whole)
                    for _ in range(chance.randint(1, 3)):
                        damaged[chance.randrange(10, len(damaged))] = chance.randrange(256)
                    cut = chance.randint(9, len(damaged))
                    with server.connect() as client, contextlib.suppress(Closed):
                        client.send_frame(bytes(damaged))
                        client.send_frame(whole[:cut])


def test_null_records(server: DrumlinServer) -> None:
    with _unharmed(server), server.connect() as client:
        entry = {"name": "t", "partition_data": [{"index": 0, "records": None}]}
        with contextlib.suppress(Closed, MalformedMessage):
            answer = client.ask("produce", 9, acks=-1, topic_data=[entry])
            assert answer.responses[0].partition_responses[0].error_code != ErrorCode.none


@pytest.mark.parametrize("codec", [each for each in CODECS if each != "none"])
def test_compressed_bombs(server: DrumlinServer, codec: str) -> None:
    """What unfolds to hundreds of times its size is refused before it fills the memory."""
    bomb = compress(codec, bytes((60 if codec == "snappy" else 200) * _MIB))
    data = Batch(payload=bomb, codec=codec).encode()
    assert len(data) < _MAX_FRAME
    with _unharmed(server), server.connect() as client:
        for _ in range(3):
            assert produce(client, "t", data).error_code != ErrorCode.none


def test_half_open_connections(server: DrumlinServer) -> None:
    """Thousands that announce a large frame, send a bit of it, and then nothing."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= _HALF_OPEN + 200, "this machine allows too few descriptors: ulimit -Hn"
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    beginning = struct.pack(">i", _MAX_FRAME) + b"\x00" * 1000
    with _unharmed(server), contextlib.ExitStack() as stack:
        for number in range(_HALF_OPEN):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            with contextlib.suppress(OSError):
                each.sendall(beginning if number % 2 else b"\x00\x00")
        # Those that have sent little hold nobody up, and stay.
        connections = psutil.Process(server.pid).net_connections
        wait_until(lambda: len(connections("tcp4")) >= _HALF_OPEN // 2, "them to be accepted")
        with server.connect() as late:
            assert fetch(late, "t", 0).error_code == ErrorCode.none


def test_large_frames_that_stop_half_way(server: DrumlinServer) -> None:
    """Together they may hold no more than the budget for requests."""
    with _unharmed(server), contextlib.ExitStack() as stack:
        half = struct.pack(">i", _MAX_FRAME) + bytes(_MAX_FRAME // 2)
        for _ in range(60):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            each.settimeout(0.05)
            with contextlib.suppress(OSError):
                each.sendall(half)
        assert _memory(server) < 400 * _MIB


def test_client_that_never_reads(server: DrumlinServer) -> None:
    """Its requests are taken until there is no room for answers, and then no more."""
    with server.connect() as client:
        create_topic(client, "large", configs={"retention.ms": "-1"})
        for _ in range(8):
            data = batch(b"x" * (_MIB - 200))
            assert produce(client, "large", data).error_code == ErrorCode.none
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 8 * _MIB}
    request = build(
        "fetch",
        11,
        {
            "replica_id": -1,
            "max_bytes": 8 * _MIB,
            "session_epoch": -1,
            "topics": [{"topic": "large", "partitions": [wanted]}],
        },
    )
    frame = b"".join(encode_request("fetch", 11, 1, "greedy", request))
    with _unharmed(server), contextlib.ExitStack() as stack:
        for _ in range(5):
            greedy = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            greedy.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                for _ in range(20_000):
                    greedy.sendall(frame)
        with server.connect() as other:
            assert fetch(other, "large", 0).error_code == ErrorCode.none


def test_connections_per_address(make_server: MakeServer) -> None:
    server = make_server({"max.connections.per.ip": "5"})
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            client = stack.enter_context(server.connect())
            assert client.ask("metadata", 12, topics=[]).brokers
        with server.connect() as refused:
            assert _is_closed(refused)

    def admits() -> bool:
        with contextlib.suppress(Closed), server.connect() as client:
            return bool(client.ask("metadata", 12, topics=[]).brokers)
        return False

    wait_until(admits, "room for a new connection")


def test_connections_in_all(make_server: MakeServer) -> None:
    server = make_server({"max.connections": "3"})
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(3)]
        assert all(each.ask("metadata", 12, topics=[]).brokers for each in clients)
        with server.connect() as refused:
            assert _is_closed(refused)
        assert clients[0].ask("metadata", 12, topics=[]).brokers, "those that are there stay"

    def admits() -> bool:
        with contextlib.suppress(Closed), server.connect() as client:
            return bool(client.ask("metadata", 12, topics=[]).brokers)
        return False

    wait_until(admits, "room for a new connection")


def test_idle_connections_are_closed(make_server: MakeServer) -> None:
    server = make_server({"connections.max.idle.ms": "300"})
    with server.connect() as client:
        assert client.ask("metadata", 12, topics=[]).brokers
        assert _is_closed(client)
