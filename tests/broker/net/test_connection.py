"""What a connection does with requests that come in heaps, or that end in disaster."""

from __future__ import annotations

import itertools
import resource
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from drumlin.wire.messages import encode_request, parse_response
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.messages import build
from rig.data.raw import Closed
from rig.waiting import wait_until


def request(api: str, version: int, number: int = 1, **fields: Any) -> bytes:
    return b"".join(encode_request(api, version, number, "raw", build(api, version, fields)))


def fetch(topic: str, number: int, **more: Any) -> bytes:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [partition]}]
    fields = {"replica_id": -1, "max_bytes": 1 << 20, "session_epoch": -1, "topics": topics}
    return request("fetch", 11, number, **fields, **more)


def fill(ask: Callable[..., Any], topic: str, data: bytes) -> None:
    entry = {"name": topic, "partition_data": [{"index": 0, "records": data}]}
    answer = ask("produce", 9, acks=1, timeout=10_000, topic_data=[entry])
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none"


def test_more_requests_at_once_than_there_is_room_for_answers(server: DrumlinServer) -> None:
    count = 2000
    with server.connect() as client:
        client.send_bytes(b"".join(request("api_versions", 0, n) for n in range(count)))
        for number in range(count):
            assert int.from_bytes(client.receive_frame()[:4], "big") == number


def test_answers_keep_the_order_of_requests_whatever_waits(
    server: DrumlinServer, ask: Callable[..., Any], create: Callable[..., str]
) -> None:
    full, empty = create("full"), create("empty")
    fill(ask, full, batch(b"x" * 100_000))
    kinds = [
        ("api_versions", 0, lambda n: request("api_versions", 0, n)),
        ("fetch", 11, lambda n: fetch(empty, n, max_wait=20, min_bytes=1)),
        ("fetch", 11, lambda n: fetch(full, n, max_wait=0, min_bytes=1)),
        ("metadata", 9, lambda n: request("metadata", 9, n, topics=[{"name": full}])),
        ("list_groups", 4, lambda n: request("list_groups", 4, n)),
    ]
    wanted = list(itertools.islice(itertools.cycle(kinds), 90))
    with server.connect() as client:
        client.send_bytes(b"".join(make(n) for n, (_, _, make) in enumerate(wanted)))
        for number, (api, version, _) in enumerate(wanted):
            answered, _ = parse_response(api, version, client.receive_frame())
            assert answered == number


@pytest.mark.deep
def test_answers_do_not_pile_up_behind_one_that_waits(
    server: DrumlinServer, ask: Callable[..., Any], create: Callable[..., str]
) -> None:
    empty, count = create("empty"), 14
    resources = [{"resource_type": 4, "resource_name": "1"}] * 80
    large = [request("describe_configs", 1, n, resources=resources) for n in range(1, count + 1)]
    process = psutil.Process(server.pid)

    def is_idle() -> bool:
        """It waits for something, and not for a processor that others have."""
        before = process.cpu_times().user
        was_waiting = process.status() == psutil.STATUS_SLEEPING
        time.sleep(0.3)
        is_waiting = process.status() == psutil.STATUS_SLEEPING
        return was_waiting and is_waiting and bool(process.cpu_times().user == before)

    with server.connect() as client:
        client.send_bytes(large[0])
        size = len(client.receive_frame())
        before = process.memory_info().rss
        client.send_bytes(fetch(empty, 0, max_wait=60_000, min_bytes=1) + b"".join(large))
        ask("api_versions", 0)
        wait_until(is_idle, "the broker to have done what it does")
        assert process.memory_info().rss - before < count // 2 * size, "all are kept"
        fill(ask, empty, batch(b"x"))
        for number in range(count + 1):
            assert int.from_bytes(client.receive_frame()[:4], "big") == number


def test_what_came_before_a_request_that_cannot_be_read_is_answered(server: DrumlinServer) -> None:
    unknown = b"\x00\x00\x00\x0a\x7f\xff\x00\x00\x00\x00\x00\x09\xff\xff"
    with server.connect() as client:
        client.send_bytes(request("api_versions", 0, 1) + request("list_groups", 4, 2) + unknown)
        assert client.receive_frame()[:4] == b"\x00\x00\x00\x01"
        assert client.receive_frame()[:4] == b"\x00\x00\x00\x02"
        with pytest.raises(Closed):
            client.receive_frame()


def test_no_descriptor_is_kept_by_fetches_that_were_given_up(
    server: DrumlinServer, ask: Callable[..., Any], create: Callable[..., str]
) -> None:
    full, empty = create("full"), create("empty")
    for _ in range(4):
        fill(ask, full, batch(b"x" * 900_000))
    process = psutil.Process(server.pid)

    def give_up(data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as peer:
            peer.sendall(data)
            # Closing with answers unread sends a reset, whatever state they are in.

    for _ in range(20):  # whatever is opened for good is opened now
        give_up(fetch(full, 1) * 5 + fetch(empty, 2, max_wait=60_000, min_bytes=1))
    ask("api_versions", 0)
    before = process.num_fds()
    for number in range(600):
        waiting = fetch(empty, 2, max_wait=60_000, min_bytes=1)
        half = fetch(full, 1, max_wait=60_000, min_bytes=1 << 30)
        give_up((fetch(full, 1) * 5, waiting * 3, half * 2, waiting[:20])[number % 4])
    wait_until(lambda: process.num_fds() <= before, "all descriptors to be given back")


def test_no_descriptor_is_left_for_another_connection(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path)
    server.start()
    process = psutil.Process(server.pid)
    try:
        with server.connect() as early, ExitStack() as stack:
            assert early.ask("metadata", 9, topics=[]).brokers  # its code is loaded now
            limit = process.num_fds() + 10
            process.rlimit(resource.RLIMIT_NOFILE, (limit, limit))
            for _ in range(40):
                stack.enter_context(server.connect())
            wait_until(lambda: "cannot accept" in server.said(), "the shortage to be said")
            # Some are kept for what the broker itself has to open.
            topic = {"name": "t", "num_partitions": 5, "replication_factor": 1}
            early.ask("create_topics", 7, topics=[topic], timeout=10_000)
            (created,) = early.ask("metadata", 9, topics=[{"name": "t"}]).topics
            assert [each.leader_id for each in created.partitions] == [1] * 5
        with server.connect() as late:
            assert late.ask("metadata", 9, topics=[]).brokers
        assert server.said().count("cannot accept") == 1
        server.stop()
        server.check_output()
    finally:
        server.close()


def test_peers_that_go_away_in_every_state(
    server: DrumlinServer, ask: Callable[..., Any], create: Callable[..., str]
) -> None:
    full, empty = create("full"), create("empty")
    fill(ask, full, batch(b"x" * 900_000))
    whole = request("produce", 9, acks=1, timeout=1, topic_data=[])
    states = [
        b"",
        b"\x00\x00",
        whole[:20],
        struct.pack(">i", 1 << 20) + bytes(300_000),
        whole,
        fetch(full, 1, max_wait=0, min_bytes=1) * 30,
        fetch(empty, 1, max_wait=60_000, min_bytes=1) * 3 + whole,
        request("join_group", 3, group_id="g", session_timeout=10_000) + whole,
    ]
    for data in states:
        for is_reset in (False, True):
            with socket.create_connection(("127.0.0.1", server.port)) as peer:
                peer.sendall(data)
                if is_reset:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    peer.shutdown(socket.SHUT_WR)
    connections = psutil.Process(server.pid).net_connections
    # What is left is this test's own connection: all others are noticed and closed.
    wait_until(
        lambda: sum(each.status == "ESTABLISHED" for each in connections()) <= 1,
        "all of them to be closed",
        10,
    )
    assert ask("metadata", 9, topics=[])["brokers"]
