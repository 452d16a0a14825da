"""The shared budget of request memory: no client starves, no large request blocks itself."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from drumlin.broker.net.request_memory import RequestMemory
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.depth import so_many
from rig.waiting import wait_until

_MIB = 1 << 20
_FRAME = 8 * _MIB
_BUDGET = 16 * _MIB


class Holder:
    def __init__(self, memory: RequestMemory) -> None:
        self.memory = memory
        self.moved_bytes = 0
        self.awaits_peer = True
        self.reading = True
        self.closed = False

    def hold(self, held_bytes: int, wanted_bytes: int = 64 * _MIB) -> bool:
        self.reading = self.memory.hold(self, held_bytes, wanted_bytes)
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


class Looks:
    """Looks after the memory every second."""

    def __init__(self, memory: RequestMemory) -> None:
        self.memory = memory
        self.now = 1000.0

    def look(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            self.memory.look_after(self.now)


def test_who_stalls_while_others_wait_is_closed() -> None:
    memory = RequestMemory(100)
    looks = Looks(memory)
    a, b = Holder(memory), Holder(memory)
    a.hold(150)
    looks.look(60)
    assert not a.closed  # it holds up no one
    b.hold(20)
    looks.look(1)
    assert not a.closed
    looks.look(3)
    assert a.closed
    assert b.reading


def test_who_may_exceed_the_limit_is_held_to_the_same_pace_as_others() -> None:
    """100 MB within eleven minutes is enough, although it is looked at more often."""
    memory = RequestMemory(100 * _MIB)
    looks = Looks(memory)
    looks.look(1)
    exempt, waiting = Holder(memory), Holder(memory)
    assert exempt.hold(101 * _MIB, 200 * _MIB)
    waiting.awaits_peer = False
    assert not waiting.hold(10 * _MIB)
    for _ in range(120):
        exempt.moved_bytes += 200 * _MIB // 600
        looks.look(1)
        assert not exempt.closed
    for _ in range(10):
        exempt.moved_bytes += 200 * _MIB // 1000
        looks.look(1)
    assert exempt.closed


def test_all_who_stall_are_closed_and_not_one_after_the_other() -> None:
    memory = RequestMemory(100)
    looks = Looks(memory)
    stalled = [Holder(memory) for _ in range(5)]
    for each in stalled:
        assert each.hold(19)
    honest, exempt = Holder(memory), Holder(memory)
    assert exempt.hold(20)  # the one that may exceed the limit
    exempt.awaits_peer = False
    assert not honest.hold(10)
    honest.awaits_peer = False  # it has sent ahead, and we do not read it
    looks.look(20)
    assert honest.reading
    assert not honest.closed
    assert sum(each.closed for each in stalled) >= 3  # then half of the memory is free


def test_the_largest_go_first() -> None:
    memory = RequestMemory(100)
    looks = Looks(memory)
    small, large, waiting = Holder(memory), Holder(memory), Holder(memory)
    assert small.hold(20)
    assert large.hold(75)
    assert waiting.hold(20)  # and is the one that may exceed the limit
    waiting.awaits_peer = False
    assert not Holder(memory).hold(5)
    looks.look(20)
    assert large.closed
    assert not small.closed


def test_where_one_is_let_go_on_and_stalls_others_go_with_it() -> None:
    """Many half-sent requests; the broker cannot tell which of them would continue if read."""
    memory = RequestMemory(1000)
    looks = Looks(memory)
    half_sent = [Holder(memory) for _ in range(60)]
    for held_bytes in (20, 21):
        for each in half_sent:
            each.hold(held_bytes)
    for each in half_sent:
        each.awaits_peer = each.reading  # the others have sent ahead
    assert sum(each.reading for each in half_sent) == 1
    honest = Holder(memory)
    assert not honest.hold(2)
    honest.awaits_peer = False
    looks.look(5)
    assert sum(each.closed for each in half_sent) > 30
    assert honest.reading
    assert not honest.closed


def test_a_byte_now_and_then_is_not_enough() -> None:
    memory = RequestMemory(100)
    looks = Looks(memory)
    drips, flows, waits = (Holder(memory) for _ in range(3))
    drips.hold(60)
    flows.hold(60)
    waits.awaits_peer = False
    waits.hold(10)
    for _ in range(30):
        drips.moved_bytes += 1
        flows.moved_bytes += _MIB
        looks.look(1)
    assert drips.closed
    assert not flows.closed


def test_nobody_is_blamed_for_a_time_in_which_nothing_was_read() -> None:
    memory = RequestMemory(100)
    looks = Looks(memory)
    looks.look(1)
    a, b = Holder(memory), Holder(memory)
    a.hold(150)
    b.hold(20)
    looks.now += 60.0
    looks.look(1)
    assert not a.closed


def test_ordinary_requests_pass_by_large_ones_that_wait() -> None:
    memory = RequestMemory(100)
    a, b, large, ordinary = (Holder(memory) for _ in range(4))
    assert a.hold(100)
    assert b.hold(50)  # the one that may exceed the limit
    assert not large.hold(50)
    assert ordinary.hold(10, wanted_bytes=12)
    assert not Holder(memory).hold(10, wanted_bytes=12)
    assert not large.reading
    assert ordinary.hold(0)
    late = Holder(memory)
    assert late.hold(2, wanted_bytes=12)


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


@pytest.mark.deep
def test_half_sent_large_requests_hold_nobody_up(tmp_path: Path) -> None:
    """Their peers are silent, or send a byte now and then, when the memory is used up."""
    settings = {
        "socket.request.max.bytes": str(_BUDGET),
        "queued.max.request.bytes": str(_BUDGET),
        "num.partitions": "1",
    }
    server = DrumlinServer(tmp_path, settings)
    server.start()
    size = _BUDGET
    half = memoryview(bytes(size // 2))
    left: dict[socket.socket, int] = {}
    try:
        with contextlib.ExitStack() as stack, server.connect(timeout_s=60) as honest:
            wanted = {"name": "t", "num_partitions": 1, "replication_factor": 1}
            large = [{"name": "max.message.bytes", "value": str(_FRAME)}]
            honest.ask("create_topics", 7, topics=[wanted | {"configs": large}], timeout=10_000)
            for _ in range(12):
                peer = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                peer.sendall(struct.pack(">i", size))
                peer.setblocking(False)
                left[peer] = len(half)

            def send_more() -> bool:
                return sum(_send_some(peer, left, half) for peer in left) > 0

            wait_until(lambda: not send_more(), "the memory to be used up")
            assert produce(honest, batch(b"x" * 900_000)).error_code is ErrorCode.none

            with ThreadPoolExecutor(1) as pool:  # 3 MB are no ordinary request
                answer = pool.submit(_produce_as_clients_do, server, batch(b"x" * 3_000_000))

                def is_answered() -> bool:
                    send_more()
                    return answer.done()

                wait_until(is_answered, "the large request among those that stall", 120)
            assert answer.result() is ErrorCode.none
        server.stop()
        server.check_output()
    finally:
        server.close()


def _produce_as_clients_do(server: DrumlinServer, data: bytes) -> ErrorCode:
    """The broker cannot tell it from stalled ones: it may be closed with them, and reconnects."""
    while True:
        with server.connect(timeout_s=60) as client, contextlib.suppress(Closed, NoAnswer):
            return ErrorCode(produce(client, data).error_code)


def _send_some(peer: socket.socket, left: dict[socket.socket, int], half: memoryview) -> bool:
    """Send up to a half of what was announced, and then single bytes; whether any of the half."""
    try:
        sent = peer.send(half[: left[peer]] if left[peer] else b".")
    except OSError:
        return False
    left[peer] = max(0, left[peer] - sent)
    return left[peer] > 0


def test_random_histories_end_with_everyone_done_and_nothing_held() -> None:
    for seed in range(so_many(60, 200)):
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
            each.hold(held[each], held[each])
            if left[each] == 0 and held[each] == 0:
                memory.forget(each)
                del left[each]
        assert not left
        assert memory.held_bytes == 0
