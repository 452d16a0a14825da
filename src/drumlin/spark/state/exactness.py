"""Ensures, in a query's tasks, that the records read give the exact state of the moment.

The driver has made claims about the log (`client/state/state_claims.py`); this module reads as the
claims require, and has brokers confirm them when everything is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from drumlin.spark.connection import client_of
from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.data_loss import DataLoss, ReadFailed

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    import pyarrow as pa

    from drumlin.lowlevel import Claims


def read_exactly(
    source: SourceOptions, claims: Claims, ranges: Sequence[PlannedRange]
) -> Iterator[pa.RecordBatch]:
    """The records of a task's ranges.

    Raises:
        StateNotExact: records are missing that the state needs.
        DataLoss: the topic was deleted and created again since the state was planned.
    """
    from drumlin.spark.reading.tasks import read_task

    for needs_all in (False, True):
        chosen = [each for each in ranges if claims[each.key].needs_all == needs_all]
        if chosen:
            reading = dataclasses.replace(source, without_gaps=needs_all)
            try:
                yield from read_task(reading, chosen)
            except ReadFailed as error:
                _refuse_if_missing(source, claims, error)
                raise
    _refuse_another_topic(source, ranges)


def confirm(source: SourceOptions, claims: Claims) -> None:
    """Confirm the claims: after every task has read its ranges, before their entries are used.

    Raises:
        StateNotExact: a cleaner has run, or the leader has changed, in the meantime.
    """
    from drumlin import lowlevel

    lowlevel.confirm_states(client_of(source), claims)


def _refuse_another_topic(source: SourceOptions, ranges: Sequence[PlannedRange]) -> None:
    """Refuse records that were read from another topic of the same name.

    Logs are read by the topic's name. Ids are never reused: a topic that has the planned id now had
    it during the whole read.

    Raises:
        DataLoss: a topic has another id now.
    """
    from drumlin import lowlevel

    planned = {each.topic: each.topic_id for each in ranges if each.topic_id is not None}
    found = lowlevel.look_up_topics(client_of(source), planned).found if planned else {}
    for topic, described in found.items():
        if described.topic_id not in (None, planned[topic]):
            raise DataLoss(
                f"topic {topic!r} was deleted and created again since this state was planned: its "
                f"id was {planned[topic]}, and is {described.topic_id}. Create the DataFrame again"
            )


def _refuse_if_missing(source: SourceOptions, claims: Claims, error: ReadFailed) -> None:
    from drumlin import lowlevel
    from drumlin.client.errors import RecordsMissing
    from drumlin.client.state.state_claims import incomplete

    missing = error.__cause__
    if isinstance(missing, RecordsMissing):
        known = lowlevel.exact_from(client_of(source), missing.topic).get(missing.partition)
        raise incomplete(
            claims[TopicPartition(missing.topic, missing.partition)], known, missing
        ) from error
