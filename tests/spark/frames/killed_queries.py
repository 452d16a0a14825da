"""What a run of a query leaves in a topic if it is killed: the sink's protocol, without Spark."""

from __future__ import annotations

import pyarrow as pa

from drumlin.client.client import Client
from drumlin.spark.writing.entry import TaskWrite, begin_task
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol import driver
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.requests import CommitAll
from spark.frames.query_topics import Table, records_of

SETTINGS = SinkSettings()


def written(client: Client, topic: str, batch: int, run: str, table: Table) -> TaskMessage:
    """What the only task of a run writes, and leaves open."""
    topic_id = client.describe_topics([topic])[topic].topic_id
    who = TaskIdentity(f"query.{topic_id}", "capture-query", batch, run, 0)
    task = begin_task(client, who, SETTINGS)
    assert isinstance(task, TaskWrite)
    records = records_of(table)
    rows = {"key": list(records), "value": list(records.values())}
    task.transaction.append(pa.table(rows), topic)
    return task.finish(len(records), f"{hash(tuple(records.items())) % 2**64:x}")


def decided(client: Client, message: TaskMessage) -> None:
    """The driver's side, up to the moment before the first transaction is committed."""
    performer = Performer(client)
    steps = driver.commit([message], message.identity.batch, SETTINGS)
    request = next(steps)
    while not isinstance(request, CommitAll):
        request = steps.send(performer.perform(request))
    performer.close()


def lost(client: Client, message: TaskMessage) -> None:
    """The transaction is aborted, as by a broker after its timeout."""
    assert message.opened is not None
    client.transaction(message.opened.transactional_id).abort()
