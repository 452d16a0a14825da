"""What `drumlin top` makes of two looks."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from drumlin.cli.reach.log_dirs import LogDir
from drumlin.cli.top.look import Look, OwnLook
from drumlin.cli.top.own_metrics import brokers_in, figures_in, sent_in
from drumlin.cli.top.pace import pause_s
from drumlin.cli.top.rates import WINDOW_S, Looks, Picture, picture
from drumlin.client.admin.group_admin import GroupListing
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.cluster_view import PartitionView, TopicView
from drumlin.peer.connection import Address

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = uuid.UUID(int=1)


def topic(leader: int = 1, isr: tuple[int, ...] = (1, 2), topic_id: uuid.UUID = TOPIC_ID) -> Any:
    views = {
        0: PartitionView(0, 1, 0, (1, 2), (1, 2)),
        1: PartitionView(1, leader, 0, (2, 1), isr),
    }
    return TopicView("t", topic_id, False, views)


def look(
    at_s: float,
    ends: tuple[int, int],
    sizes: tuple[int, int] = (0, 0),
    committed: tuple[int, int] | None = None,
    **how: Any,
) -> Look:
    places = (T0, T1)
    groups = [] if committed is None else [GroupListing("g", "Stable", "classic", "consumer", 1)]
    positions = {} if committed is None else {"g": dict(zip(places, committed, strict=True))}
    known = {
        "controller": 1,
        "brokers": {1: Address("a", 9092), 2: Address("b", 9092)},
        "topics": {"t": topic()},
        "log_dirs": [
            LogDir(1, "/a", None, 1000, 400, dict(zip(places, sizes, strict=True))),
            LogDir(1, "/b", None, 1000, 300, {}),
            LogDir(2, "/c", "kafka_storage_error", None, None, {}),
        ],
    }
    return Look(
        at_s,
        "id",
        ends=dict(zip(places, ends, strict=True)),
        groups=groups,
        positions=positions,
        **(known | how),
    )


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    return row


def test_the_first_look_has_no_rates() -> None:
    found = picture(None, look(0, (10, 20), (100, 200), (5, 5)))
    assert found.seconds is None
    assert only(found.topics)["records_in_per_s"] is None
    assert found.totals["records_in_per_s"] is None
    assert only(found.topics)["size_bytes"] == 300
    group = only(found.groups)
    assert (group["lag"], group["lag_per_s"], group["behind_ms"]) == (20, None, None)


def test_rates_of_topics_and_partitions() -> None:
    found = picture(look(0, (10, 20), (100, 200)), look(2, (30, 20), (300, 200)))
    first, second = found.partitions
    assert (first["records_in_per_s"], first["bytes_in_per_s"]) == (10, 100)
    assert (second["records_in_per_s"], second["bytes_in_per_s"]) == (0, 0)
    row = only(found.topics)
    assert (row["records_in_per_s"], row["bytes_in_per_s"]) == (10, 100)
    assert (found.totals["records_in_per_s"], found.totals["partitions"]) == (10, 2)


def test_what_was_removed_has_no_rate() -> None:
    found = picture(look(0, (10, 20), (500, 200)), look(2, (30, 20), (300, 220)))
    assert [each["bytes_in_per_s"] for each in found.partitions] == [None, 10]
    assert only(found.topics)["bytes_in_per_s"] == 10


def test_a_topic_made_anew_is_another() -> None:
    other = {"t": topic(topic_id=uuid.UUID(int=2))}
    found = picture(look(0, (10, 20)), look(2, (30, 40), topics=other))
    assert [each["records_in_per_s"] for each in found.partitions] == [None, None]


def test_groups() -> None:
    found = picture(look(0, (100, 0), committed=(40, 0)), look(2, (200, 0), committed=(60, 0)))
    row = only(found.groups)
    assert (row["lag"], row["read_per_s"], row["lag_per_s"]) == (140, 10, 40)
    assert row["behind_ms"] == 2800  # at 50 records a second
    assert (row["topics"], row["partitions"]) == (1, 2)


def test_brokers_and_trouble() -> None:
    topics = {"t": topic(leader=9, isr=(9,))}
    found = picture(look(0, (0, 0)), look(1, (5, 5), (50, 60), topics=topics))
    first, second = found.brokers
    assert (first["leaders"], first["replicas"], first["size_bytes"]) == (1, 2, 110)
    assert (first["free_bytes"], first["is_controller"]) == (300, True)
    assert (second["offline_log_dirs"], second["free_bytes"]) == (1, None)
    assert [each["state"] for each in found.partitions] == ["in sync", "offline"]
    assert (found.totals["offline"], found.totals["under_replicated"]) == (1, 0)


def test_rates_are_of_the_last_seconds() -> None:
    looks = Looks()
    shown: list[Picture] = [looks.add(look(at, (10 * at, 0))) for at in range(0, 40, 2)]
    assert [each.seconds for each in shown[:4]] == [None, 2, 4, 6]
    assert all(each.seconds == WINDOW_S for each in shown[5:])
    assert only(shown[-1].topics)["records_in_per_s"] == 10
    assert len(looks._looks) <= WINDOW_S / 2 + 1
    # However rarely it is looked, the last two count.
    assert looks.add(look(1000, (10_000, 0))).seconds == pytest.approx(1000 - 38)


METRICS = """# HELP drumlin_event_loop_busy_seconds_total Time.
# TYPE drumlin_event_loop_busy_seconds_total counter
drumlin_event_loop_busy_seconds_total {busy}
# TYPE drumlin_event_loop_slow_turns_total counter
drumlin_event_loop_slow_turns_total{{longer_than="0.01"}} 500.0
drumlin_event_loop_slow_turns_total{{longer_than="0.05"}} {slow}
# TYPE drumlin_event_loop_longest_turn_seconds gauge
drumlin_event_loop_longest_turn_seconds{{broker="1"}} 0.02
drumlin_event_loop_longest_turn_seconds{{broker="2"}} 0.3
# TYPE drumlin_compaction_uncleanable_partitions gauge
drumlin_compaction_uncleanable_partitions{{log_dir="/a"}} 1.0
drumlin_compaction_uncleanable_partitions{{log_dir="/b"}} 2.0
something_else_total 7.0
"""


def test_metrics_of_our_own_brokers() -> None:
    before, now = (
        OwnLook("h:1", at, figures_in(METRICS.format(busy=busy, slow=slow)))
        for at, busy, slow in ((0.0, 10.0, 4.0), (2.0, 11.0, 6.0))
    )
    found = picture(look(0, (0, 0), own=[before]), look(2, (0, 0), own=[now]))
    row = only(found.own)
    assert (row["busy_ratio"], row["stalls_per_s"]) == (0.5, 1.0)
    assert (row["longest_turn_ms"], row["uncleanable"]) == (300, 3)
    assert row["cleaned_bytes_per_s"] is None
    again = picture(look(2, (0, 0), own=[now]), look(4, (0, 0), own=[before]))
    assert only(again.own)["busy_ratio"] is None  # it was started anew


def own(
    where: str,
    at_s: float,
    sent: dict[str, float],
    error: str | None = None,
    brokers: frozenset[str] = frozenset(),
) -> OwnLook:
    text = "".join(
        f'drumlin_topic_sent_bytes_total{{topic="{topic}"}} {value}\n'
        for topic, value in sent.items()
    )
    head = "# TYPE drumlin_topic_sent_bytes_total counter\n"
    figures, read = figures_in(head + text), sent_in(head + text)
    return OwnLook(where, at_s, figures, error=error, sent=read, brokers=brokers)


def test_bytes_out_are_those_of_all_brokers_or_none() -> None:
    before = [own("a", 0, {"t": 100, "": 50}), own("b", 0, {"t": 7})]
    now = [own("a", 2, {"t": 300, "": 70}), own("b", 1, {"t": 17, "new": 4})]
    both = picture(look(0, (0, 0), own=before), look(2, (0, 0), own=now))
    assert only(both.topics)["bytes_out_per_s"] == 110
    assert both.totals["bytes_out_per_s"] == 114
    assert [each["bytes_out_per_s"] for each in both.own] == [110, 14]
    for then, after in (
        (before[:1], now[:1]),  # the other broker may lead a partition, too
        (before, [now[0], own("b", 2, {}, error="it is gone")]),
        (before[:1], now),
        (now, [own("a", 4, {"t": 1}), own("b", 4, {"t": 20, "new": 4})]),  # started anew
    ):
        found = picture(look(0, (0, 0), own=then), look(2, (0, 0), own=after))
        assert only(found.topics)["bytes_out_per_s"] is None
        assert found.totals["bytes_out_per_s"] is None
    assert picture(None, look(2, (0, 0), own=now)).totals["bytes_out_per_s"] is None


def test_a_broker_that_is_named_twice_counts_once() -> None:
    one, other = frozenset({"1"}), frozenset({"2"})
    before = [own("localhost", 0, {"t": 0}, brokers=one), own("::1", 0, {"t": 0}, brokers=one)]
    now = [own("localhost", 2, {"t": 8}, brokers=one), own("::1", 2, {"t": 8}, brokers=one)]
    twice = picture(look(0, (0, 0), own=before), look(2, (0, 0), own=now))
    assert [each["http"] for each in twice.own] == ["localhost"]
    assert twice.totals["bytes_out_per_s"] is None, "nobody has told of the other broker"
    before += [own("b", 0, {"t": 0}, brokers=other)]
    now += [own("b", 2, {"t": 4}, brokers=other)]
    both = picture(look(0, (0, 0), own=before), look(2, (0, 0), own=now))
    assert both.totals["bytes_out_per_s"] == 6
    together = [own("m", at, {"t": 5.0 * at}, brokers=one | other) for at in (0, 2)]
    found = picture(look(0, (0, 0), own=together[:1]), look(2, (0, 0), own=together[1:]))
    assert found.totals["bytes_out_per_s"] == 5


def test_brokers_at_one_address_tell_who_they_are_and_their_sum() -> None:
    text = "".join(
        f'drumlin_build_info{{broker="{each}",version="1",broker_id="{each}"}} 1.0\n'
        f'drumlin_topic_sent_bytes_total{{broker="{each}",topic="t"}} 5.0\n'
        for each in (1, 2)
    )
    assert (brokers_in(text), sent_in(text)) == ({"1", "2"}, {"t": 10})


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\r"])
def test_a_name_that_looks_like_a_line_is_none(end: str) -> None:
    """Groups and clients are called as they like."""
    name = f'drumlin_topic_sent_bytes_total{{topic=\\"t\\"}} 7.0{end}'
    text = f'drumlin_group_lag_records{{group="{end}{name}",topic="t"}} 1.0\n'
    assert sent_in(text) == {}


@pytest.mark.parametrize(("took_s", "pause"), [(0.1, 1.9), (1.0, 9.0), (5.0, 30.0)])
def test_looks_take_a_tenth_of_the_time_at_most(took_s: float, pause: float) -> None:
    assert pause_s(2.0, took_s) == pytest.approx(pause)


def test_a_look_that_failed_is_repeated_soon() -> None:
    assert pause_s(2.0, 10.0, has_failed=True) == 2.0
    assert pause_s(60.0, 5.0) == 55.0
