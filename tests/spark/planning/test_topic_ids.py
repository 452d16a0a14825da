"""`checkpointTopicIds`: a topic that is another one after a restart is never taken for the old."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from drumlin.spark.options.offsets import from_json, with_topic_ids, without_topic_ids
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.planning.data_loss import DataLoss
from drumlin.spark.state.options import StateOptions, stream_options
from rig.brokers.scripted_broker import ScriptedBroker
from spark.planning.test_loss_answers import FULL, START, Scripted, latest, planned

WITH_IDS = {"checkpointtopicids": "true"}


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with ScriptedBroker() as broker:
        yield Scripted(broker)


def ids(scripted: Scripted) -> dict[str, str]:
    return {topic: str(each) for topic, each in scripted.broker.topic_ids.items()}


def journalled(scripted: Scripted) -> dict[str, Any]:
    """What a query leaves in its checkpoint that has read all there is."""
    return latest(scripted.reader(fail=True, **WITH_IDS), START)


def make_anew(scripted: Scripted) -> None:
    """Topic t, longer than it was, as if nothing had happened."""
    scripted.make_anew(300)
    scripted.broker.topics["t"] = 2
    scripted.ends["t"]["1"] = 300


def test_offsets_have_the_ids_of_their_topics_beside_them(scripted: Scripted) -> None:
    position = journalled(scripted)
    assert without_topic_ids(position) == (FULL, ids(scripted))
    reader = scripted.reader(fail=True, **WITH_IDS)
    assert latest(reader, position) == position, "there is nothing new"
    scripted.ends["u"]["0"] = 12
    end = latest(reader, position)
    assert planned(reader, position, end) == [("u", 0, 10, 12)]


def test_a_checkpoint_without_ids_gets_them_with_the_next_batch(scripted: Scripted) -> None:
    reader = scripted.reader(fail=True, **WITH_IDS)
    end = latest(reader, FULL)
    assert end == with_topic_ids(FULL, ids(scripted))
    assert planned(reader, FULL, end) == []


def test_who_asks_for_them_no_more_loses_them_with_the_next_batch(scripted: Scripted) -> None:
    """So the way back to Spark's own source is open."""
    reader = scripted.reader(fail=True)
    assert latest(reader, journalled(scripted)) == FULL


@pytest.mark.parametrize("keeps", [True, False])
def test_a_topic_that_was_made_anew_between_two_runs_is_noticed(
    scripted: Scripted, keeps: bool
) -> None:
    position, before = journalled(scripted), ids(scripted)["t"]
    make_anew(scripted)
    reader = scripted.reader(fail=True, **(WITH_IDS if keeps else {}))
    told = f"created again: t-0 .of topic id {before}, now {ids(scripted)['t']}.*new checkpoint"
    with pytest.raises(DataLoss, match=told):
        latest(reader, position)


def test_who_goes_on_without_reads_it_from_its_first_record(scripted: Scripted) -> None:
    position = journalled(scripted)
    make_anew(scripted)
    read = []
    for _ in range(4):  # each batch by another process
        reader = scripted.reader(fail=False, **WITH_IDS)
        end = latest(reader, position)
        plan = planned(reader, position, end)
        assert planned(scripted.reader(fail=False, **WITH_IDS), position, end) == plan
        read += plan
        position = end
    assert without_topic_ids(position)[1] == ids(scripted)
    for partition in (0, 1):
        ranges = [each[2:] for each in read if each[:2] == ("t", partition)]
        assert [offset for each in ranges for offset in range(*each)] == list(range(300))


@pytest.mark.parametrize("fail", [True, False])
def test_a_batch_that_was_begun_is_not_repeated_with_another_topic(
    scripted: Scripted, fail: bool
) -> None:
    position = journalled(scripted)
    scripted.ends["t"]["0"] = scripted.ends["u"]["0"] = 120
    end = latest(scripted.reader(fail=True, **WITH_IDS), position)
    make_anew(scripted)
    reader = scripted.reader(fail=fail, **WITH_IDS)
    if fail:
        with pytest.raises(DataLoss, match=f"created again: t .of id .*, now {ids(scripted)['t']}"):
            planned(reader, position, end)
    else:
        assert planned(reader, position, end) == [("u", 0, 10, 120)]


def test_brokers_without_ids_have_none_there() -> None:
    assert with_topic_ids(FULL, {"t": None}) == FULL
    topic_id = str(uuid.uuid4())
    form, found = without_topic_ids(with_topic_ids(FULL, {"t": topic_id, "other": "id"}))
    assert (from_json(form), found) == (from_json(FULL), {"t": topic_id})


def test_changes_always_have_them_and_states_never() -> None:
    given = {"subscribe": "t", "kafka.bootstrap.servers": "x:1"}
    assert stream_options(given)["checkpointtopicids"] == "true"
    for refusing in (stream_options, StateOptions.parse):
        with pytest.raises(OptionError, match="'checkpointTopicIds' does not go with"):
            refusing(given | WITH_IDS)
