"""The input and the changelog stay the topics that they were, or the processor stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from drumlin.client.client import Client
from drumlin.state import Processor, StateRefused
from drumlin.state.changelog_format import changelog_name
from rig.waiting import wait_until
from state.counting import check, count

Made = Callable[..., Processor]
KEYS = [f"k{number % 20}" for number in range(100)]


@pytest.fixture
def output(client: Client, topic: str) -> str:
    client.create_topic(f"{topic}-output", 1)
    return f"{topic}-output"


def write(client: Client, topic: str, partition: int | None = None) -> None:
    rows = {"key": KEYS, "value": KEYS}
    if partition is None:
        client.append(rows, topic)
    else:
        client.append({**rows, "partition": [partition] * 100}, topic, partition="partition")


def test_partitions_that_are_added_stop_it(
    client: Client, topic: str, group: str, output: str, made: Made
) -> None:
    """Before a record is counted that may have come to another partition than its key's state."""
    write(client, topic)
    with pytest.raises(StateRefused, match="has 3 partitions now, and had 2"), made() as processor:
        count(processor, output)
        committed = client.committed_offsets(group)
        client.add_partitions(topic, 3)
        write(client, topic)
        count(processor, output)
    assert client.committed_offsets(group) == committed
    with pytest.raises(StateRefused, match=r"has 2 partitions, but input .* has 3.*new_partitions"):
        made()


def test_partitions_that_are_followed(
    client: Client, topic: str, group: str, output: str, made: Made
) -> None:
    """By a process that runs, and by the next one; each key stays in its partition."""
    write(client, topic, 0)
    options = {"new_partitions": "follow", "idle_timeout_ms": 200}
    changelog = changelog_name(group, "counts")
    with made(**options) as processor:
        count(processor, output)
        client.add_partitions(topic, 3)
        write(client, topic, 0)
        count(processor, output)
        assert client.partitions(changelog) == [0, 1, 2]
    client.add_partitions(topic, 4)
    client.append({"key": ["new"], "value": ["x"], "partition": [3]}, topic, partition="partition")
    with made(**options) as processor:
        wait_until(lambda: count(processor, output) == 1, "the new partition")
        assert len(processor._work.owned) == 4
    wanted = Counter(each.encode() for each in 2 * KEYS)
    check(client, topic, output, group, wanted + Counter({b"new": 1}))


@pytest.mark.parametrize("is_input", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_topic_that_is_made_again_while_it_is_read(
    client: Client, topic: str, group: str, output: str, made: Made, is_input: bool
) -> None:
    write(client, topic)
    again = topic if is_input else changelog_name(group, "counts")
    with pytest.raises(StateRefused, match=f"'{again}' was deleted and created"), made() as it:
        count(it, output)
        committed = client.committed_offsets(group)
        client.delete_topic(again)
        client.create_topic(again, 2, configs={"cleanup.policy": "compact"})
        for _ in range(3):
            write(client, topic)
        count(it, output)
    assert client.committed_offsets(group) in ({}, committed)  # they go with the topic


def test_an_input_that_is_made_again_and_is_shorter_now(
    client: Client, topic: str, group: str, output: str, made: Made
) -> None:
    """Its log does not have what is to be read next, which is not all that is told."""
    write(client, topic)
    with pytest.raises(StateRefused, match=f"'{topic}' was deleted and created"), made() as it:
        count(it, output)
        client.delete_topic(topic)
        client.create_topic(topic, 2)
        count(it, output)


def test_a_changelog_that_is_not_compacted_any_more(
    client: Client, topic: str, group: str, output: str, made: Made
) -> None:
    write(client, topic)
    changelog = changelog_name(group, "counts")
    with pytest.raises(StateRefused, match=r"cleanup\.policy=delete: the state"), made() as it:
        count(it, output)
        client.set_topic_configs(changelog, {"cleanup.policy": "delete"})
        it._topics._config_at -= 60
        write(client, topic)
        count(it, output)


def test_a_changelog_whose_records_were_deleted(
    client: Client, topic: str, group: str, output: str, made: Made
) -> None:
    write(client, topic)
    with made() as processor:
        count(processor, output)
    changelog = changelog_name(group, "counts")
    client.set_topic_configs(changelog, {"cleanup.policy": "compact,delete"})
    client.delete_records(changelog, [0], before=1)
    client.set_topic_configs(changelog, {"cleanup.policy": "compact"})
    with (
        pytest.raises(StateRefused, match=r"begins at offset 1, as records were deleted"),
        made() as processor,
    ):
        count(processor, output)


def test_a_choice_that_is_none(made: Made) -> None:
    with pytest.raises(ValueError, match="new_partitions 'hope'"):
        made(new_partitions="hope")
