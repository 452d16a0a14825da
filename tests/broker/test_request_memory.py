"""The shared budget of request memory: nobody starves, one large request cannot block itself."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from pathlib import Path
from typing import Any

import psutil

from drumlin.broker.request_memory import RequestMemory
from drumlin.wire.errors import ErrorCode
from rig.batches import batch
from rig.drumlin_server import DrumlinServer
from rig.raw import RawClient

_MIB = 1 << 20
_FRAME = 8 * _MIB
_BUDGET = 16 * _MIB


class Holder:
    def __init__(self, memory: RequestMemory) -> None:
        self.memory = memory
        self.last_active = 0.0
        self.reading = True
        self.closed = False

    def hold(self, held_bytes: int) -> bool:
        self.reading = self.memory.hold(self, held_bytes)
        return self.reading

    def resume_reading(self) -> None:
        self.reading = True

    def close(self, reason: Exception | str | None) -> None:
        self.closed = True
        self.memory.forget(self)


def test_within_the_limit_nobody_waits() -> None:
    memory = RequestMemory(100)
    a, b = Holder(memory), Holder(memory)
    assert a.hold(50)
    assert b.hold(50)
    assert memory.held_bytes == 100


def test_one_may_exceed_it_and_the_others_wait_for_it() -> None:
    memory = RequestMemory(100)
    a, b, c = (Holder(memory) for _ in range(3))
    assert a.hold(150)
    assert not b.hold(10)
    assert not c.hold(10)
    assert a.hold(0)
    assert b.reading


def test_closing_lets_others_go_on() -> None:
    memory = RequestMemory(100)
    a, b = Holder(memory), Holder(memory)
    assert a.hold(150)
    assert not b.hold(20)
    memory.forget(a)
    assert b.reading
    assert memory.held_bytes == 20


def test_who_stalls_while_others_wait_is_closed() -> None:
    memory = RequestMemory(100)
    a, b = Holder(memory), Holder(memory)
    a.hold(150)
    memory.look_after(now=100.0)
    assert not a.closed  # it holds nobody up
    b.hold(20)
    memory.look_after(now=5.0)
    assert not a.closed
    memory.look_after(now=100.0)
    assert a.closed
    assert b.reading


def test_who_is_resumed_and_has_nothing_to_receive_holds_nobody_up() -> None:
    memory = RequestMemory(100)
    a, b, c, d = (Holder(memory) for _ in range(4))
    a.hold(150)
    for each in (b, c, d):
        assert not each.hold(10)
    memory.forget(a)  # b may go on, but nothing comes
    assert b.reading
    memory.look_after(now=1.0)
    assert c.reading
    assert d.reading


def test_one_after_the_other_goes_on_while_there_is_too_much() -> None:
    memory = RequestMemory(100)
    a, b, c, d = (Holder(memory) for _ in range(4))
    a.hold(150)
    for each in (b, c, d):
        assert not each.hold(60)
    memory.forget(a)  # b may go on, but nothing comes
    assert not d.reading
    memory.look_after(now=1.0)
    assert c.reading
    memory.look_after(now=2.0)
    assert d.reading


def produce(client: RawClient, data: bytes) -> Any:
    entry = {"name": "t", "partition_data": [{"index": 0, "records": data}]}
    answer = client.ask("produce", 9, acks=1, timeout=10_000, topic_data=[entry])
    return answer.responses[0].partition_responses[0]


def test_hundreds_of_large_frames_that_never_end(tmp_path: Path) -> None:
    """Half of them from peers that have sent large requests before. The others are served."""
    settings = {
        "socket.request.max.bytes": str(_FRAME),
        "queued.max.request.bytes": str(_BUDGET),
        "num.partitions": "1",
    }
    server = DrumlinServer(tmp_path, settings)
    server.start()
    process = psutil.Process(server.pid)
    announced = struct.pack(">i", _FRAME) + bytes(40_000)
    try:
        with contextlib.ExitStack() as stack, server.connect() as other:
            wanted = {"name": "t", "num_partitions": 1, "replication_factor": 1}
            other.ask("create_topics", 7, topics=[wanted], timeout=10_000)
            assert produce(other, batch(b"first")).error_code is ErrorCode.none
            before = process.memory_info().rss
            too_large = batch(b"x" * (_FRAME - 1000))
            for number in range(240):
                client = stack.enter_context(server.connect())
                if number % 8 == 0:
                    code = produce(client, too_large).error_code
                    assert code is ErrorCode.message_too_large
                client.socket.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    client.send_bytes(announced)
            for _ in range(60):
                peer = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                peer.settimeout(0.02)
                with contextlib.suppress(TimeoutError):
                    peer.sendall(struct.pack(">i", _FRAME) + bytes(_FRAME // 2))
            assert produce(other, batch(b"small")).error_code is ErrorCode.none
            assert process.memory_info().rss - before < 6 * _BUDGET
        with server.connect() as later:
            assert produce(later, batch(b"x" * 900_000)).error_code is ErrorCode.none
        server.stop()
        server.check_output()
    finally:
        server.close()


def test_random_histories_end_with_everyone_done_and_nothing_held() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        memory = RequestMemory(1000)
        left = {Holder(memory): rng.randrange(1, 6) for _ in range(8)}
        held = dict.fromkeys(left, 0)
        for _ in range(10_000):
            ready = [each for each in left if each.reading]
            if not left:
                break
            assert ready, f"everyone waits (seed {seed})"
            each = rng.choice(ready)
            if rng.random() < 0.6:
                held[each] = min(2000, held[each] + rng.randrange(1, 600))
            else:
                held[each] = 0
                left[each] -= 1
            each.hold(held[each])
            if left[each] == 0 and held[each] == 0:
                memory.forget(each)
                del left[each]
        assert not left
        assert memory.held_bytes == 0
