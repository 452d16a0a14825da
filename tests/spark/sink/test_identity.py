"""Sinks are named after what Spark says of the batch, or after nothing else in the world."""

from __future__ import annotations

import pytest

from drumlin.spark.option_values import OptionError
from drumlin.spark.sink.identity import BatchIdentity, WriteNames, of_stream, of_write

QUERY = "0b8a1c1e-6b4c-4c39-9b64-5a4e3c0d1f00"
RUN = "7d5a4b14-5f0e-4b7a-8a53-2f3e2a1b0c99"
PLAIN = WriteNames("t", None, None, "new")
STREAMING = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": "7", "spark.jobGroup.id": RUN}


def test_a_stream_is_known_by_its_query() -> None:
    assert of_stream(PLAIN, STREAMING.get) == BatchIdentity(QUERY, QUERY, 7, RUN)
    named = PLAIN._replace(sink_id="mine")
    assert of_stream(named, STREAMING.get) == BatchIdentity("mine", QUERY, 7, RUN)
    with pytest.raises(OptionError, match="at-least-once"):
        of_stream(PLAIN, {}.get)


def test_writes_of_one_batch_to_several_topics_are_several_sinks() -> None:
    sinks = {
        of_write(PLAIN._replace(topic=topic), STREAMING.get).sink for topic in ("a", "b", None)
    }
    assert len(sinks) == 3
    long = of_write(PLAIN._replace(topic="x" * 249), STREAMING.get)
    assert len(long.sink) <= 150
    assert long != of_write(PLAIN._replace(topic="x" * 248), STREAMING.get)


def test_a_job_group_of_the_users_own_is_no_run() -> None:
    hidden = STREAMING | {"spark.jobGroup.id": "nightly"}
    assert of_write(PLAIN, hidden.get).run == "new"
    assert of_stream(PLAIN, hidden.get).run == "new"


def test_a_write_by_itself_is_new_unless_it_has_a_name() -> None:
    assert of_write(PLAIN, {}.get) == BatchIdentity("write.new", "", 0, "new")
    named = PLAIN._replace(write_id="june")
    assert of_write(named, {}.get) == BatchIdentity("write.june", "", 0, "new")
    assert of_write(named, {"spark.jobGroup.id": RUN}.get).run == "new"
    with pytest.raises(OptionError, match="the name of one write"):
        of_write(named, STREAMING.get)
