"""The door for programs that share a topic, and what names of earlier versions do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import drumlin
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.deprecated_calls import DeprecatedCalls
from rig.waiting import wait_until

#: Behind the door, and not on the face of a client.
ONLY_HERE = ("claim_states", "confirm_states", "ends_at", "is_topic_id_unknown", "look_up_topics",
             "read_ranges", "replay_state", "restore_target", "sample_logs")  # fmt: skip


def test_all_names_are_there() -> None:
    for name in lowlevel.__all__:
        assert getattr(lowlevel, name) is not None
    assert drumlin.lowlevel is lowlevel
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        lowlevel.x  # noqa: B018


def test_every_call_says_what_it_does() -> None:
    calls = [getattr(lowlevel, name) for name in lowlevel.__all__ if name.islower()]
    assert all(inspect.getdoc(call) for call in calls)
    for call in calls:
        kinds = {each.kind for each in inspect.signature(call).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_a_client_and_a_transaction_show_what_programs_use() -> None:
    assert not [name for name in ONLY_HERE if hasattr(Client, name)]
    for name in ("fate", "abandon", "await_end"):
        assert not hasattr(drumlin.Transaction, name)
    assert not hasattr(drumlin.Writer, "give_up")


def old_names(client: Client, topic: str) -> dict[str, tuple[object, Callable[[], object]]]:
    """What each gives, and the call in its place."""
    place = (topic, 0)
    return {
        "topics": (client.describe_topics([topic]), lambda: client.topics([topic])),
        "partition_sizes": (
            lowlevel.partition_sizes(client, [place]),
            lambda: client.partition_sizes([place]),
        ),
        "exact_from": (lowlevel.exact_from(client, topic), lambda: client.exact_from(topic)),
        "end_transactions": ({}, lambda: client.end_transactions([], commit=True)),
    }


def test_old_names_warn_and_work(client: Client, topic: str) -> None:
    # Apache Kafka may make a log a moment after the topic has a leader.
    wait_until(lambda: lowlevel.partition_sizes(client, [(topic, 0)]), "the log to be there")
    for name, (expected, call) in old_names(client, topic).items():
        with pytest.warns(DeprecationWarning, match=rf"Client\.{name} is ") as told:
            assert call() == expected
        assert told[0].filename == __file__, "it names the caller"


def test_an_old_way_of_two_phases(client: Client, topic: str) -> None:
    first = client.transaction(topic)
    first.append({"value": ["a"]}, topic)
    first.commit()
    with pytest.warns(DeprecationWarning, match=r"drumlin\.lowlevel\.following"):
        second = first.following()
    with pytest.warns(DeprecationWarning, match=r"drumlin\.lowlevel\.stream_appender"):
        appender = client.stream_appender(topic)
    appender.settle()
    second.append({"value": ["b"]}, topic)
    with pytest.warns(DeprecationWarning, match=r"drumlin\.lowlevel\.detach"):
        opened = second.detach()
    with pytest.warns(DeprecationWarning, match=r"drumlin\.lowlevel\.end_transaction$"):
        client.end_transaction(opened, commit=True)
    read = client.read(topic, isolation="read_committed", decode="utf8")
    assert sorted(read["value"].to_pylist()) == ["a", "b"]


def test_old_names_are_in_the_changelog() -> None:
    """Each with what it is called now."""
    changes = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
    told = set(re.findall(r"`(?:client|transaction)\.(\w+)`", changes))
    old = {name for name in vars(DeprecatedCalls) if not name.startswith("_")}
    assert {*old, "stream_appender", "detach", "following"} <= told
