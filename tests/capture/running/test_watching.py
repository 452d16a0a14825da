"""What the stream does not show: topics that are made anew, partitions that come or go."""

from __future__ import annotations

import pytest

from capture.captured import Captured
from drumlin.capture.changes import Table
from drumlin.capture.database.catalog import Leaf
from drumlin.capture.log.position import Definition, decode_definition
from drumlin.capture.running import following, supervised, watching
from drumlin.capture.running.watching import has_lost_topic, with_leaves, with_topics
from rig.waiting import wait_until

_TABLE = Table(1, "s", "t", "topic", ("id",), ("integer",))


def _definition(*tables: Table) -> Definition:
    return Definition("7", "shop", list(tables))


def test_a_topic_with_another_id_is_read_again() -> None:
    first, told = with_topics(_definition(_TABLE), {"topic": "a"})
    assert first.tables == [_TABLE._replace(topic_id="a")] and not told, "of an older version"
    assert with_topics(first, {"topic": "a"}) == (first, [])
    assert with_topics(first, {"topic": None}) == (first, []), "the cluster has no ids"
    assert not has_lost_topic(first, {"topic": "a"}) and not has_lost_topic(first, {"topic": None})
    assert has_lost_topic(first, {"topic": "b"}) and has_lost_topic(first, {})
    second, told = with_topics(first, {"topic": "b"})
    assert second.tables == [_TABLE._replace(topic_id="b", is_read=False)]
    assert "topic topic was deleted by somebody else" in told[0]
    third, told = with_topics(second, {"topic": "c"})
    assert third.tables == [_TABLE._replace(topic_id="c", is_read=False)] and not told


def test_partitions_are_told_once() -> None:
    old, new = Leaf(1, 5, "old", "9", True), Leaf(1, 6, "new", "10", True)
    other = Leaf(2, 7, "x", "11", True)
    first, told = with_leaves(_definition(_TABLE), [old, other], lambda _: True)
    assert first.tables[0].leaves == (5,) and not told
    assert decode_definition(first.encode().encode()) == first
    assert with_leaves(first, [other, old], lambda _: True) == (first, [])
    second, told = with_leaves(first, [old, new], lambda leaf: leaf is new)
    assert second.tables[0].leaves == (5, 6)
    assert len(told) == 1 and "new was attached with rows" in told[0]
    assert not with_leaves(first, [old, new], lambda _: False)[1], "made as a partition, and empty"
    assert len(with_leaves(first, [old, new], lambda _: None)[1]) == 1
    third, told = with_leaves(second, [], lambda _: False)
    assert third.tables[0].leaves == ()
    assert len(told) == 1 and "2 of its partitions were detached or dropped" in told[0]
    unread = _definition(_TABLE._replace(is_read=False, leaves=(5,)))
    assert not with_leaves(unread, [old, new], lambda _: True)[1], "it is read anyway"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    monkeypatch.setattr(supervised, "_FENCED_S", 0.1)


def _item(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, n int)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO item SELECT each FROM generate_series(1, 50) each",
    )


def _delete(captured: Captured) -> None:
    topic = captured.topic("item")
    captured.client.delete_topic(topic)
    wait_until(lambda: topic not in captured.client.list_topics(), "the deletion")


def _make(captured: Captured) -> None:
    configs = {"cleanup.policy": "compact"}
    captured.client.create_topic(captured.topic("item"), 3, configs=configs, if_not_exists=True)


def test_a_topic_is_made_anew_while_it_runs(captured: Captured, quick: None) -> None:
    _item(captured)
    captured.start_here()
    captured.await_all()
    _delete(captured)
    _make(captured)
    wait_until(lambda: "reading table public.item into it" in captured.said(), "it to be noticed")
    captured.run("UPDATE item SET n = 1 WHERE id < 5", "INSERT INTO other VALUES (1)")
    captured.await_all()
    wait_until(lambda: not captured.status().reading, "it to be read")
    captured.check_equal("item", "other")


@pytest.mark.parametrize("is_made", [False, True])
def test_a_topic_is_deleted_while_it_does_not_run(captured: Captured, is_made: bool) -> None:
    _item(captured)
    captured.start_here()
    captured.await_all()
    captured.stop()
    _delete(captured)
    if is_made:
        _make(captured)
    captured.run("DELETE FROM item WHERE id < 5")
    captured.start_here()
    captured.await_all()
    wait_until(lambda: not captured.status().reading, "it to be read")
    captured.check_equal("item", "other")
    assert captured.said().count("was deleted by somebody else and made anew") == 1


def test_a_topic_is_made_anew_in_the_snapshot(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    _item(captured)
    with_the_topics, was_deleted = watching.with_topics, []

    def and_delete(*arguments: object) -> object:
        if not was_deleted:
            was_deleted.append(True)
            _delete(captured)
            _make(captured)
        return with_the_topics(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(watching, "with_topics", and_delete)
    captured.start_here()
    captured.await_all()
    captured.check_equal("item", "other")


@pytest.mark.deep
def test_partitions_that_come_and_go(captured: Captured, quick: None) -> None:
    """Those made as partitions are filled by changes: nothing is told of them."""
    captured.run(
        "CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "INSERT INTO parted VALUES (1, 'a')",
    )
    with captured.connect() as connection:
        if connection.info.server_version < 130000:
            pytest.skip("PostgreSQL 12 does not publish partitioned tables")
    captured.start_here()
    captured.await_all()
    captured.run(
        "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parted VALUES (11, 'b')",
        "CREATE TABLE empty (LIKE parted INCLUDING ALL)",
        "ALTER TABLE parted ATTACH PARTITION empty FOR VALUES FROM (20) TO (30)",
        "INSERT INTO parted VALUES (21, 'c')",
    )
    captured.await_all()
    captured.check_equal("parted")
    captured.run(
        'CREATE TABLE "full%s" (LIKE parted INCLUDING ALL)',
        "INSERT INTO \"full%s\" VALUES (31, 'd'), (32, 'd')",
        'ALTER TABLE parted ATTACH PARTITION "full%s" FOR VALUES FROM (30) TO (40)',
    )
    wait_until(lambda: '"full%s" was attached with rows' in captured.said(), "it to be told")
    assert captured.ask_log("reread", "--tables", "public.parted").returncode == 0
    wait_until(lambda: len(captured.state("parted")) == 5, "its rows")
    wait_until(lambda: not captured.status().reading, "it to be read")
    captured.stop()
    captured.run("ALTER TABLE parted DETACH PARTITION parted_2", "DROP TABLE empty")
    captured.start_here()
    wait_until(lambda: "2 of its partitions were detached or dropped" in captured.said(), "it")
    assert captured.said().count("attached with rows") == 1
    assert captured.ask_log("reread", "--tables", "public.parted").returncode == 0
    wait_until(lambda: len(captured.state("parted")) == 3, "the tombstones")
    captured.check_equal("parted")
