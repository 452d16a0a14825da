"""A topic as keys of a Redis: equal to the log at its end, whatever is killed meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.serving import targets
from drumlin.serving.redis.target import RedisTarget
from drumlin.serving.target import Fenced, Position
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.redis_server import PROGRAM, WHY_NOT, RedisServer
from rig.waiting import wait_until
from serving import lost_tombstone
from serving.kills import kill_again_and_again
from serving.lost_tombstone import LEFT

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)
redis = pytest.importorskip("redis")


def rows(**values: str | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def store(server: RedisServer) -> Iterator[Any]:
    with redis.Redis(port=server.port, protocol=2) as store:
        yield store


def kept(store: Any, prefix: str) -> dict[bytes, bytes]:
    names = list(store.scan_iter(f"{prefix}*"))
    return {
        name.removeprefix(prefix.encode()): value
        for name, value in zip(names, store.mget(names) if names else [], strict=True)
    }


def test_it_has_the_last_value_of_every_key(
    client: Client, topic: str, server: RedisServer, store: Any
) -> None:
    def keep() -> int:
        done = drumlin.materialize(
            client, topic, f"{server.url}?prefix=u:", group="g", until_end=True
        )
        return done.records

    client.append(rows(a="1", b="2", c="3"), topic)
    assert keep() == 3
    assert kept(store, "u:") == {b"a": b"1", b"b": b"2", b"c": b"3"}
    client.append(rows(a="one", b=None, d="4", e=None), topic)
    assert keep() == 4
    expected = {b"a": b"one", b"c": b"3", b"d": b"4"}
    assert kept(store, "u:") == expected
    assert keep() == 0
    store.flushall()
    assert keep() > 0
    assert kept(store, "u:") == expected
    hashes = list(store.scan_iter("drumlin:*", _type="hash"))
    store.hdel(hashes[0], "offset")
    store.set("u:of nobody", "x")
    assert keep() >= 0
    assert kept(store, "u:") == expected | {b"of nobody": b"x"}
    with pytest.raises(drumlin.TargetRefused, match="by group 'g', not"):
        drumlin.materialize(client, topic, f"{server.url}?prefix=u:", group="other")
    client.append([{"key": "of nobody", "value": "mine"}], topic)
    with pytest.raises(drumlin.TargetRefused, match="b'u:of nobody' is there already"):
        keep()


def test_deletions_that_may_have_been_missed(
    client: Client, topic: str, server: RedisServer, store: Any, serving_broker: DrumlinServer
) -> None:
    topic += "-cleaned"
    lost_tombstone.create(client, topic, tombstones_stay=False)
    drumlin.materialize(client, topic, server.url, group="g", until_end=True)
    lost_tombstone.lose(client, topic, serving_broker.data, tombstones_stay=False)
    for name in store.scan_iter("drumlin:*", _type="hash"):
        store.hset(name, "at_end", lost_tombstone.of_another_machine())
    drumlin.materialize(client, topic, server.url, group="g", until_end=True)
    assert kept(store, f"{topic}:") == LEFT


def test_an_old_owner_that_wakes_up_writes_nothing(server: RedisServer, store: Any) -> None:
    at = Position("id", 5, 0, "then")
    old = RedisTarget(server.url, None, "u:", "t by g")
    new = RedisTarget(server.url, None, "u:", "t by g")
    assert old.claim(0) == (1, None)
    loading = old.replace(0, 1)
    loading.add([(b"a", b"1")])
    loading.commit(at)
    loading = old.replace(0, 1)
    assert new.claim(0) == (2, at)
    for write in (
        lambda: old.apply(0, 1, {b"a": b"old"}, at._replace(offset=9)),
        lambda: loading.add([(b"a", b"old")]),
        lambda: loading.commit(at._replace(offset=9)),
        lambda: old.replace(0, 1),
    ):
        with pytest.raises(Fenced, match="partition 0"):
            write()
    assert kept(store, "u:") == {b"a": b"1"}
    new.apply(0, 2, {b"a": None, b"b": b"2"}, at._replace(offset=7))
    assert (kept(store, "u:"), new.positions([0])) == ({b"b": b"2"}, {0: at._replace(offset=7)})
    old.close()
    new.close()


def test_partitions_with_the_same_key_that_write_at_the_same_time(
    server: RedisServer, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one adds the key after the first has looked, and before it writes."""
    at = Position("id", 5, 0, "then")
    first = RedisTarget(server.url, None, "u:", "t by g")
    second = RedisTarget(server.url, None, "u:", "t by g")
    terms = [first.claim(0).term, second.claim(1).term]
    transact = RedisTarget._transact
    waiting = [lambda: second.apply(1, terms[1], {b"same": b"of 1"}, at)]

    def late(self: RedisTarget, changes: Any) -> bool:
        if self is first and waiting:
            waiting.pop()()
        return transact(self, changes)

    monkeypatch.setattr(RedisTarget, "_transact", late)
    with pytest.raises(drumlin.TargetRefused, match="b'u:same' is there already"):
        first.apply(0, terms[0], {b"same": b"of 0", b"other": b"x"}, at)
    assert (kept(store, "u:"), first.positions([0])) == ({b"same": b"of 1"}, {})
    # Keys that others add are no reason to write nothing, and a claim is.
    waiting.append(lambda: second.apply(1, terms[1], {b"more": b"of 1"}, at))
    first.apply(0, terms[0], {b"other": b"x"}, at)
    waiting.append(lambda: terms.append(second.claim(0).term))
    with pytest.raises(Fenced):
        first.apply(0, terms[0], {b"other": b"y", b"same": None}, at)
    assert kept(store, "u:") == {b"same": b"of 1", b"more": b"of 1", b"other": b"x"}
    first.close()
    second.close()


def test_what_a_replacement_meets(server: RedisServer, store: Any) -> None:
    """Its own rows, as a reply was lost; those of one that was broken off; and rows of others."""
    at = Position("id", 5, 0, "then")
    target = RedisTarget(server.url, None, "u:", "t by g")
    term = target.claim(0).term
    target.apply(0, term, {b"a": b"old", b"gone": b"old"}, at)
    broken_off = target.replace(0, term)
    broken_off.add([(b"a", b"1"), (b"b", b"1")])
    replacement = target.replace(0, term)
    for _ in range(2):
        replacement.add([(b"a", b"2"), (b"c", b"2")])
    store.set("u:others", "x")
    with pytest.raises(drumlin.TargetRefused, match="b'u:others'"):
        replacement.add([(b"d", b"2"), (b"others", b"2")])
    replacement.commit(at)
    assert kept(store, "u:") == {b"a": b"2", b"c": b"2", b"others": b"x"}
    target.apply(0, term, {b"a": None, b"others": None, b"no such": None, b"": b"\r\n\x00"}, at)
    assert kept(store, "u:") == {b"c": b"2", b"others": b"x", b"": b"\r\n\x00"}
    target.close()


def test_redis_is_killed(client: Client, topic: str, server: RedisServer, store: Any) -> None:
    chance = random.Random(3)
    model: dict[bytes, bytes] = {}
    stop, failures = threading.Event(), []

    def keep() -> None:
        try:
            drumlin.materialize(client, topic, server.url, group="killed", stop=stop)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=keep)
    thread.start()
    for number in range(3):
        for _ in range(10):
            changes = {b"k%d" % chance.randrange(500): b"%d" % number for _ in range(50)}
            deleted = set(chance.sample(sorted(changes), 5))
            table = [{"key": k, "value": None if k in deleted else changes[k]} for k in changes]
            client.append(table, topic)
            model |= changes
            for key in deleted:
                del model[key]
        server.kill()
        server.start()
    wait_until(lambda: failures or kept(store, f"{topic}:") == model, "the store to have all")
    stop.set()
    thread.join(60)
    assert not failures
    assert kept(store, f"{topic}:") == model


@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.deep)])
@pytest.mark.timeout(900)
def test_it_is_killed_at_any_moment(
    client: Client,
    topic: str,
    server: RedisServer,
    store: Any,
    serving_broker: DrumlinServer,
    kills: int,
) -> None:
    def claims() -> int:
        return sum(int(store.hget(each, "term")) for each in store.scan_iter(_type="hash"))

    model = kill_again_and_again(client, serving_broker.address, topic, server.url, claims, kills)
    assert kept(store, f"{topic}:") == model


def test_a_store_that_cannot_be_reached(server: RedisServer) -> None:
    with pytest.raises(ValueError, match=r"redis://me:\.\.\.@h/0\?colour=red"):
        targets.open_store("redis://me:hidden@h/0?colour=red", "g", None)
    server.close()
    with pytest.raises(OSError, match=r"Redis: .*refused"):
        RedisTarget(server.url, None, "u:", "t by g")
