"""A process with a name keeps its partitions while it is restarted within its session."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.state import Processor
from drumlin.state.changelog import Changelog, owner_id
from rig.waiting import wait_until
from state.counting import check, committed, count

Made = Callable[..., Processor]
KEYS = [f"k{number % 40}" for number in range(400)]


@pytest.fixture
def output(client: Client, topic: str) -> str:
    client.create_topic(f"{topic}-output", 1)
    return f"{topic}-output"


def killed(processor: Processor) -> None:
    """As if its process was killed: nothing is committed, aborted or told to the group."""
    consumer = processor._consumer
    processor._is_closed = True
    consumer._is_closed = True
    consumer._thread.run(consumer._engine.stop_polling())
    consumer._engine._is_shut = True
    for connections in consumer._engine._siblings:
        consumer._thread.run(connections.close())
    processor._replicas.close()
    processor._client.close()


def owned(client: Client, group: str) -> dict[str | None, set[int]]:
    members = client.describe_group(group).members
    return {each.instance_id: {partition for _, partition in each.partitions} for each in members}


@pytest.mark.parametrize("ends", ["closed", "killed"])
def test_a_restart_moves_no_state(
    client: Client,
    topic: str,
    group: str,
    output: str,
    made: Made,
    tmp_path: Path,
    loaded: list[int],
    ends: str,
) -> None:
    client.append({"key": KEYS, "value": KEYS}, topic)

    def one(name: str) -> Processor:
        return made(
            group_instance_id=name,
            folder=tmp_path / name,
            idle_timeout_ms=100,
            session_timeout_ms=30_000,
        )

    with ExitStack() as both:
        first, second = (both.enter_context(one(name)) for name in ("first", "second"))

        def is_shared() -> bool:
            count(first, output)
            count(second, output)
            return [len(each._work.owned) for each in (first, second)] == [1, 1]

        wait_until(is_shared, "one partition each")
        had = owned(client, group)
        client.append({"key": KEYS, "value": KEYS}, topic)
        loaded.clear()
        if ends == "closed":
            first.close()
        else:
            wait_until(lambda: next(first, None) is not None, "a record")
            first.send(output, "never to be seen", "a")
            first._work.output.flush()
            killed(first)
        count(second, output)
        assert owned(client, group) == had  # of a member that is away
        with one("first") as again:

            def is_done() -> bool:
                count(again, output)
                count(second, output)
                return len(committed(client, output)) == 800

            wait_until(is_done, "the output", 20)
            assert owned(client, group) == had
            assert loaded == []
    check(client, topic, output, group, Counter(each.encode() for each in 2 * KEYS))


def test_a_second_process_of_the_same_name_replaces_the_first(
    client: Client, topic: str, group: str, output: str, made: Made
) -> None:
    client.append({"key": KEYS, "value": KEYS}, topic)
    with (
        pytest.raises(drumlin.MembershipEnded),
        made(group_instance_id="a", session_timeout_ms=30_000) as first,
    ):
        count(first, output)
        with made(group_instance_id="a", session_timeout_ms=30_000) as second:
            client.append({"key": KEYS, "value": KEYS}, topic)
            assert count(second, output) == 400
        count(first, output)
    check(client, topic, output, group, Counter(each.encode() for each in 2 * KEYS))


def test_owners_of_states_with_similar_names(client: Client) -> None:
    """Those of another state are not fenced, even if its name begins with this one's."""
    changelog = Changelog(client, "g", "s")
    for instance in (None, "a", "b-c", str(uuid.uuid4())):
        assert changelog._is_of_owner(owner_id("g", "s", instance))
        assert not changelog._is_of_owner(owner_id("g", "s-2", instance))
        assert not changelog._is_of_owner(owner_id("g-s", "2", instance))
        assert not changelog._is_of_owner(owner_id("g", "t", instance))
    assert owner_id("g", "s", "a") == owner_id("g", "s", "a") != owner_id("g", "s", "b")
    assert owner_id("g", "s", None) != owner_id("g", "s", None)
