"""Sinks are named after what Spark says of the batch, or after nothing else in the world."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drumlin.spark.options.option_values import OptionError
from drumlin.spark.writing.identity import BatchIdentity, Property, WriteNames, of_stream, of_write
from drumlin.spark.writing.protocol import names

QUERY = "0b8a1c1e-6b4c-4c39-9b64-5a4e3c0d1f00"
RUN = "7d5a4b14-5f0e-4b7a-8a53-2f3e2a1b0c99"
PLAIN = WriteNames("t", None, None, "new")
STREAMING = {
    "sql.streaming.queryId": QUERY,
    "streaming.sql.batchId": "7",
    "spark.jobGroup.id": RUN,
    "spark.job.description": f"\nid = {QUERY}\nrunId = {RUN}\nbatch = 7",
    "spark.app.id": "local-1795397013329",
    "spark.app.startTime": "1795397011524",
    "spark.sql.execution.root.id": "14",
}


def test_a_stream_is_known_by_its_query_and_topic() -> None:
    assert of_stream(PLAIN, STREAMING.get) == BatchIdentity(f"{QUERY}.t", QUERY, 7, RUN)
    named = PLAIN._replace(sink_id="mine")
    assert of_stream(named, STREAMING.get) == BatchIdentity("mine", QUERY, 7, RUN)
    with pytest.raises(OptionError, match="at-least-once"):
        of_stream(PLAIN, {}.get)


@pytest.mark.parametrize("identify", [of_stream, of_write])
def test_what_a_query_writes_to_several_topics_are_several_sinks(
    identify: Callable[[WriteNames, Property], BatchIdentity],
) -> None:
    sinks = {
        identify(PLAIN._replace(topic=topic), STREAMING.get).sink for topic in ("a", "b", None)
    }
    assert len(sinks) == 3
    long = of_write(PLAIN._replace(topic="x" * 249), STREAMING.get)
    assert len(long.sink) <= 150
    assert long != of_write(PLAIN._replace(topic="x" * 248), STREAMING.get)


@pytest.mark.parametrize("group", ["nightly", "0b8a1c1e-0000-4c39-9b64-5a4e3c0d1f00", None])
def test_a_job_group_of_the_users_own_is_no_run(group: str | None) -> None:
    hidden: dict[str, str | None]
    hidden = {**STREAMING, "spark.jobGroup.id": group, "spark.job.description": "mine"}
    first, second = (of_write(PLAIN._replace(write=each), hidden.get) for each in ("one", "two"))
    assert first == second  # or the second would pass for a repetition of the first
    assert first.run not in (RUN, group)
    for name in ("spark.app.id", "spark.app.startTime", "spark.sql.execution.root.id"):
        again = of_write(PLAIN, (hidden | {name: "another"}).get)
        assert again.run != first.run  # and a repetition not for a second write
    assert of_stream(PLAIN, hidden.get).run == first.run


def test_a_write_by_itself_is_new_unless_it_has_a_name() -> None:
    assert of_write(PLAIN, {}.get) == BatchIdentity("write.new", "", 0, "new")
    named = PLAIN._replace(write_id="june")
    assert of_write(named, {}.get) == BatchIdentity("write/t/june", "", 0, "new")
    assert of_write(named, {"spark.jobGroup.id": RUN}.get).run == "new"
    with pytest.raises(OptionError, match="the name of one write"):
        of_write(named, STREAMING.get)


def test_writes_of_one_name_to_several_topics_are_several_writes() -> None:
    named = PLAIN._replace(write_id="june")
    topics = ("a", "b", None, "x" * 248, "x" * 249)
    sinks = [of_write(named._replace(topic=topic), {}.get).sink for topic in topics]
    assert len(set(sinks)) == len(topics)
    long = of_write(named._replace(sink_id="s" * 100, write_id="w" * 100), {}.get)
    assert max(map(len, [*sinks, long.sink])) <= 150


def test_writes_of_other_names_are_other_writes() -> None:
    """Or the second passes for a repetition of the first, and nothing of it is written."""
    named = [
        WriteNames(topic, sink, write, "new")
        for topic, sink, write in [
            ("a.b", None, "c"),
            ("a", None, "b.c"),
            ("b.c", "a", "d"),
            ("c", "a.b", "d"),
            ("topics", None, "c"),
            (None, None, "c"),
        ]
    ]
    found = [of_write(each, {}.get).sink for each in named]
    assert len(set(found)) == len(named)
    assert all(map(names.is_sink, found))


def test_a_micro_batch_is_not_taken_for_a_write_by_itself() -> None:
    # A thread of the user's own has the session of the stream, and not what its thread knows.
    session = {"spark.sql.streaming.offsetLog.formatVersion": "1"}
    with pytest.raises(OptionError, match="inheritable_thread_target"):
        of_write(PLAIN, session.get)
    assert of_write(PLAIN._replace(write_id="june"), session.get).query == ""
