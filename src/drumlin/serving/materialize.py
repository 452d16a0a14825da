"""`drumlin.materialize`, the entry point for programs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from drumlin.client import arguments
from drumlin.client.arguments import STATE_BYTES
from drumlin.client.needs_arrow import needing_arrow
from drumlin.serving.targets import TOPIC, open_store

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.serving.materializing import Progress


def materialize(
    client: Client,
    topics: str | Sequence[str] | re.Pattern[str],
    to: str,
    *,
    group: str,
    instance: str | None = None,
    decode: Literal["utf8"] | None = None,
    until_end: bool = False,
    memory_bytes: int = STATE_BYTES,
    on_progress: Callable[[Progress], object] | None = None,
    stop: threading.Event | None = None,
) -> Progress:
    """Keep the last value of every key of some topics in a store, until `stop` is set.

    Rows and offsets are written together, so that after a kill at any moment the next process
    resumes exactly at the store's position. A tombstone deletes its key's row. Processes with the
    same group share the partitions.

    Args:
        client: a client of the cluster that has the topics.
        topics: a name, several names, or a compiled pattern that must match the whole name of
            topics that exist or are created later. Each topic has its own table or prefix.
        to: the store: "sqlite:///PATH" or "sqlite:////ABSOLUTE/PATH", with "?table=NAME" for a
            table name other than the topic's; "postgresql://USER@HOST/DATABASE", with
            "?table=NAME&schema=NAME"; "redis://HOST:PORT/NUMBER", with "?prefix=TEXT"
            for a key prefix other than the topic's name and a colon;
            "opensearch+https://USER@HOST:PORT", with "?index=NAME&ca=FILE"; or
            "parquet:FOLDER" or "parquet:///ABSOLUTE/FOLDER", with
            "?table=NAME&buckets=16&every=60&keep=600". In NAME and TEXT, "{topic}" is the topic's
            name. The password may be in the environment variable DRUMLIN_STORE_PASSWORD.
        group: a consumer group. A table belongs to one group; other groups are refused.
        instance: this process's name within the group (static membership): a process that starts
            with the name of a killed one gets its partitions at once, and not after ten seconds.
        decode: "utf8" stores keys and values as text; None as bytes.
        until_end: return when the store has all records committed before this call.
        memory_bytes: the memory limit for loading one partition's state; if the state is larger,
            the log is read several times.
        on_progress: called with a `Progress` about once a second, in this thread.
        stop: set it from another thread to return once all records that were read are written.

    Returns:
        The progress; `lag` is 0 if the store has all records.

    Raises:
        TargetRefused: the table has other columns, or holds another topic, group or format.
        UnknownTopic: there is no such topic, or it was deleted. A pattern's deleted topic is no
            error.
        EqualKeys: two partitions have a value for the same key.
        StateNotExact: a cleaner removes tombstones faster than the log is read.
        Undecodable: with decode="utf8" a key or a value is not UTF-8; the message names the record.
        ModuleNotFoundError: the store's client is not installed; the message says what to do.
        OSError: the store cannot be reached.
        TypeError, ValueError: an argument cannot have this value.
    """
    for each in _names(topics):
        arguments.text("topics", each)
    arguments.text("group", group)
    arguments.text("to", to)
    if decode is not None:
        arguments.one_of("decode", decode, ("utf8",))
    arguments.callable_or_none("on_progress", on_progress)
    arguments.whole_number("memory_bytes", memory_bytes, 1, 2**63 - 1)
    with needing_arrow():
        from drumlin.client.consumer.options import Subscription
        from drumlin.serving.materializing import Materializing

    store = open_store(to, group, decode)
    try:
        if TOPIC not in store.names and not isinstance(topics, str):
            raise ValueError(f"several topics need {TOPIC} in the name: {store.names!r}")
        work = Materializing(
            client,
            Subscription.of(topics),
            group,
            store,
            instance=instance,
            decode=decode,
            memory_bytes=memory_bytes,
        )
        return work.run(
            until_end=until_end, on_progress=on_progress, stop=stop or threading.Event()
        )
    finally:
        store.close()


def _names(topics: str | Sequence[str] | re.Pattern[str]) -> Sequence[str]:
    if isinstance(topics, re.Pattern):
        return ()
    return [topics] if isinstance(topics, str) else topics
