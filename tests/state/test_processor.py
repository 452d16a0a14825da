"""A processor commits state, output and offsets together, and goes on where it was."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.consumer.membership.classic_protocol import ClassicProtocol
from drumlin.state import Processor, StateRefused
from drumlin.state.changelog_format import POSITION_KEY, changelog_name
from rig.waiting import wait_until
from state.counting import check, committed, count

Made = Callable[..., Processor]


def write(client: Client, topic: str, keys: list[str]) -> None:
    client.append({"key": keys, "value": keys}, topic)


def test_counts_go_on_where_they_were(client: Client, topic: str, group: str, made: Made) -> None:
    output = f"{topic}-output"
    client.create_topic(output, 1)
    wanted: Counter[bytes] = Counter()
    for keys in (["a", "b", "a", "c"], ["a", "d"], ["b"] * 5):
        write(client, topic, keys)
        wanted.update(each.encode() for each in keys)
        with made() as processor:
            assert count(processor, output) == len(keys)
        check(client, topic, output, group, wanted)
    assert (
        client.topic_configs(changelog_name(group, "counts"))["cleanup.policy"].value == "compact"
    )


def test_whole_columns(client: Client, topic: str, group: str, made: Made) -> None:
    output = f"{topic}-output"
    client.create_topic(output, 1)
    write(client, topic, ["a", "b", "a"])
    with made() as processor:
        for batch in processor:
            counts = processor.state.count_by(batch.column("key"))
            processor.append(
                {"key": counts["key"], "value": counts["count"].cast("string")}, output
            )
    assert dict(committed(client, output)) == {b"a": b"2", b"b": b"1"}


def test_code_that_raises_loses_nothing(client: Client, topic: str, group: str, made: Made) -> None:
    output = f"{topic}-output"
    client.create_topic(output, 1)
    write(client, topic, ["a"] * 3)
    with made() as processor:
        count(processor, output)
    write(client, topic, ["a", "a", "b"])
    with pytest.raises(ZeroDivisionError) as raised, made() as processor:
        for batch in processor:
            for key in batch.column("key").to_pylist():
                processor.state[key] = b"100"
                processor.send(output, b"100", key)
            raise ZeroDivisionError
    (note,) = raised.value.__notes__
    assert f"topic {topic!r} partition" in note
    assert "offsets" in note
    with made() as processor:
        assert count(processor, output) == 3
    check(client, topic, output, group, Counter({b"a": 5, b"b": 1}))


def test_deleted_keys_are_gone(client: Client, topic: str, group: str, made: Made) -> None:
    write(client, topic, ["a", "b"])
    with made() as processor:
        for batch in processor:
            processor.state.count_by(batch.column("key"))
    write(client, topic, ["a", "b"])
    with made() as processor:
        for batch in processor:
            for key in batch.column("key").to_pylist():
                assert processor.state.pop(key) == b"1"
    left = client.snapshot(changelog_name(group, "counts")).column("key").to_pylist()
    assert set(left) == {POSITION_KEY}


def test_idle_time_begins_with_the_assignment(
    client: Client, topic: str, group: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while the group waits for other members, as it does for 3 s by default."""
    perform = ClassicProtocol.perform

    async def slowly(protocol: ClassicProtocol, step: Any) -> None:
        await asyncio.sleep(0.4)
        await perform(protocol, step)

    monkeypatch.setattr(ClassicProtocol, "perform", slowly)
    write(client, topic, ["a"] * 3)
    with made(idle_timeout_ms=300) as processor:
        assert sum(batch.num_rows for batch in processor) == 3


def test_two_share_the_partitions(client: Client, topic: str, group: str, made: Made) -> None:
    """The second one takes partitions over while the first one goes on, state and all."""
    output = f"{topic}-output"
    client.create_topic(output, 1)
    keys = [f"k{number % 40}" for number in range(400)]
    wanted = Counter(each.encode() for each in keys)
    write(client, topic, keys)
    with made(idle_timeout_ms=500) as first:
        count(first, output)
        with made(idle_timeout_ms=100) as second:
            for _ in range(200):
                write(client, topic, keys[:80])
                wanted.update(each.encode() for each in keys[:80])
                took = count(second, output)
                count(first, output)
                if took:
                    break
            assert took
            count(second, output)
        count(first, output)
    check(client, topic, output, group, wanted)


def test_output_at_least_once(client: Client, topic: str, group: str, made: Made) -> None:
    """It is visible after its batch, before the commit, and again after an abort."""
    output = f"{topic}-output"
    client.create_topic(output, 1)
    write(client, topic, ["a", "a"])
    with made(output="at_least_once", commit_interval_ms=60_000) as processor:
        batch = next(processor)
        processor.state.count_by(batch.column("key"))
        processor.append({"key": ["a"], "value": ["1"]}, output)
        processor.send(output, "2", "a")
        processor._work.written()  # as the next batch does
        wait_until(lambda: len(committed(client, output)) == 2, "output before a commit")
        assert client.committed_offsets(group) == {}
        client.abort_transaction(processor._work._begun().transactional_id)
        assert count(processor, output) == 2
    values = [value for _, value in committed(client, output)]
    assert values == [b"1", b"2", b"1", b"2"]
    latest = dict(committed(client, changelog_name(group, "counts")))
    assert latest[b"a"] == b"2"


def test_output_that_fails_is_not_committed(
    client: Client, topic: str, group: str, made: Made
) -> None:
    output = f"{topic}-output"
    client.create_topic(output, 1, configs={"max.message.bytes": 1000})
    write(client, topic, ["a"])
    with (
        pytest.raises(drumlin.ClientError, match=r"1000|too large|too_large"),
        made(output="at_least_once") as processor,
    ):
        for _ in processor:
            processor.send(output, "x" * 5_000)
    assert client.committed_offsets(group) == {}


# -- what is refused ---------------------------------------------------------------------------


def test_a_changelog_of_another_shape_is_refused(
    client: Client, topic: str, group: str, made: Made
) -> None:
    changelog = changelog_name(group, "counts")
    client.create_topic(changelog, 3, configs={"cleanup.policy": "compact"})
    with pytest.raises(StateRefused, match=f"{changelog!r} has 3 partitions.* has 2: both"):
        made()
    client.delete_topic(changelog)
    client.create_topic(changelog, 2, configs={"cleanup.policy": "compact,delete"})
    with pytest.raises(StateRefused, match=r"cleanup\.policy=compact,delete: the state would lose"):
        made()


def run(processor: Processor) -> None:
    with processor:
        for batch in processor:
            processor.state.count_by(batch.column("key"))


def test_a_moved_group_is_refused(client: Client, topic: str, group: str, made: Made) -> None:
    write(client, topic, ["a"] * 3)
    run(made())
    ((place, committed_at),) = client.committed_offsets(group).items()
    client.commit_offsets(group, {place: 1})
    with pytest.raises(StateRefused, match=r"offset 1 is committed, .* that of offset 3"):
        run(made())
    client.commit_offsets(group, {place: committed_at})
    run(made())


def test_offsets_that_have_expired_are_those_of_the_state(
    client: Client, topic: str, group: str, made: Made
) -> None:
    write(client, topic, ["a"] * 3)
    run(made())
    client.delete_group(group)
    write(client, topic, ["a"])
    run(made())
    latest = dict(committed(client, changelog_name(group, "counts")))
    assert latest[b"a"] == b"4"


def test_a_topic_that_was_made_again_is_another(
    client: Client, topic: str, group: str, made: Made
) -> None:
    write(client, topic, ["a"] * 3)
    run(made())
    client.delete_group(group)
    client.delete_topic(topic)
    client.create_topic(topic, 2)
    write(client, topic, ["a"] * 9)
    with pytest.raises(StateRefused, match="created again"):
        run(made())


def test_a_state_that_is_gone_is_missed(client: Client, topic: str, group: str, made: Made) -> None:
    write(client, topic, ["a"] * 3)
    run(made())
    client.delete_topic(changelog_name(group, "counts"))
    with pytest.raises(StateRefused, match="has no state for it"):
        run(made())


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"format": 3}, "it has format 3, but"),
        ("no JSON", "not a changelog of drumlin.state, or damaged"),
        ({"offset": -1}, "invalid position"),
        ({"topic": 7}, "invalid position"),
        ({"format": 2}, "invalid position"),
        ({"format": 2, "inputs": []}, "invalid position"),
        ({"format": 2, "inputs": [7]}, "invalid position"),
        (
            {"format": 2, "inputs": [{"topic": "a", "topic_id": "", "offset": 0}] * 2},
            "invalid position",
        ),
        (
            {
                "format": 2,
                "inputs": [{"topic": each, "topic_id": "", "offset": 0} for each in "ab"],
            },
            r"belongs to the inputs \['a', 'b'\]",
        ),
        ({"topic": "another"}, "and topic 'another'"),
        ({"group": "another"}, "belongs to group 'another'"),
        ({"topic_id": "another"}, "or the topic was deleted and created again"),
        (None, "it has keys but no position"),
    ],
)
def test_a_changelog_by_others_is_refused(
    client: Client, topic: str, group: str, made: Made, value: Any, told: str
) -> None:
    processor = made()
    if isinstance(value, dict):
        topic_id = str(client.describe_topics([topic])[topic].topic_id)
        right = {"group": group, "topic": topic, "topic_id": topic_id, "offset": 0}
        value = json.dumps({"format": 1, **right, **value})
    row = {"key": POSITION_KEY, "value": value} if value else {"key": b"k", "value": "v"}
    client.append([row], changelog_name(group, "counts"))
    with pytest.raises(StateRefused, match=told):
        run(processor)


def test_what_is_used_at_the_wrong_time_is_told(topic: str, group: str, made: Made) -> None:
    processor = made()
    for use in (
        lambda: processor.state,
        lambda: processor.partition,
        lambda: processor.send("x", b"y"),
        lambda: processor.append({"value": ["y"]}, "x"),
    ):
        with pytest.raises(drumlin.ClientError, match="there is no current batch"):
            use()
    processor.close()
    processor.close()
    with pytest.raises(drumlin.ClientError, match="closed"):
        next(processor)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"group": ""}, "group is empty"),
        ({"state": 7}, "state 7: expected a string"),
        ({"start": "committed"}, "start"),
        ({"commit_interval_ms": 0}, "commit_interval_ms"),
        ({"output": "twice"}, "output 'twice'"),
        ({"standbys": -1}, "standbys"),
        ({"dead_letters": 7}, "dead_letters"),
        ({"folder": 7}, "folder 7: expected a path"),
        ({"transaction_timeout_ms": -1}, "transaction_timeout_ms"),
        ({"bootstrap": None}, "bootstrap"),
        ({"idle_timeout_ms": "soon"}, "idle_timeout_ms"),
    ],
)
def test_options_that_cannot_be_are_named(wrong: dict[str, Any], told: str) -> None:
    options = {"group": "g", "state": "s", "bootstrap": "127.0.0.1:1"} | wrong
    with pytest.raises((TypeError, ValueError), match=told):
        drumlin.state.processor("t", **options)
