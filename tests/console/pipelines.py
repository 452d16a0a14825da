"""Sinks, captures and states as their programs leave them in a cluster, by their own code."""

from __future__ import annotations

from drumlin.capture.changes import Table
from drumlin.capture.log.names import Names
from drumlin.capture.log.position import Counts, Definition, Position
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.content import Content
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.state import changelog_format

QUERY = "0b6ff5f4-6d5e-4b5a-9d5c-0f3a1f5f8a11"
_COMPACTED = {"cleanup.policy": "compact"}


def decide(client: Client, sink: str, state: SinkState, *, commits: bool = True) -> None:
    """A decision of a sink's driver; with `commits`, its offset as well."""
    client.create_topic(names.DECISION_TOPIC, 1, configs=_COMPACTED, if_not_exists=True)
    with client.transaction(names.driver_id(sink)) as transaction:
        with transaction.writer(names.DECISION_TOPIC) as writer:
            delivery = writer.send(state.encode(sink), key=sink)
        offset = delivery.result().offset
    if commits:
        anchor = OffsetAndMetadata(offset, state.note.encode())
        client.commit_offsets(names.group_of(sink), {(names.DECISION_TOPIC, 0): anchor})


def capture(client: Client, name: str, tables: list[Table], counts: Counts) -> None:
    """A commit of a capture, with a row of its first table."""
    own = Names(name)
    client.create_topic(own.topic, 2, configs=_COMPACTED)
    client.create_topic(tables[0].topic, 1)
    with client.transaction(own.transactional_id) as transaction:
        with transaction.writer(tables[0].topic) as writer:
            writer.send(b"{}", key=b"{}")
        with transaction.writer(own.topic) as writer:
            writer.send(Definition("42", "shop", tables).encode(), key=name, partition=1)
            position = Position("r", 0x16B374D848, counts=counts)
            writer.send(position.encode(), key=name, partition=0)


def commit_state(client: Client, group: str, state: str, topic: str, offset: int) -> str:
    """A commit of a processor at this offset of the input's first partition; its changelog."""
    changelog = changelog_format.changelog_name(group, state)
    client.create_topic(changelog, 2, configs=_COMPACTED)
    position = changelog_format.Position(group, topic, "", offset)
    with client.transaction(f"{group}-{state}") as transaction:
        with transaction.writer(changelog) as writer:
            writer.send(b"7", key=b"ann", partition=0)
            value = changelog_format.position_value([position], "commit-1")
            writer.send(value, key=changelog_format.POSITION_KEY, partition=0)
        transaction.send_offsets({(topic, 0): offset}, group)
    return changelog


def fill_pipelines(client: Client, prefix: str) -> None:
    """One of each, about the topic PREFIX-topic."""
    topic = f"{prefix}-topic"
    content = Content(41, "ab" * 16, "")
    decide(client, f"{QUERY}.{topic}", SinkState(QUERY, 7, "run", content=content, ends="{}"))
    capture(
        client,
        prefix,
        [
            Table(1, "public", "item", f"{prefix}.public.item", ("id",), ("integer",)),
            Table(2, "public", "later", f"{prefix}.public.later", ("id",), ("integer",), False),
        ],
        Counts(1_000, 12, 3, 0, 1_700_000_000_000),
    )
    commit_state(client, f"{prefix}-totals", "sums", topic, 10)
