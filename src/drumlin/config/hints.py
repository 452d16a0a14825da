"""Suggestions for an unknown configuration key: the key that was probably meant.

Suggestions are looked up in this order: the name of the setting at the other level (a topic's key
given to a broker, or the other way round), a name in an older Kafka, and the most similar spelling.
Spelling comes last because it may mislead: `delete.retention.ms` looks most like
`log.retention.ms`, which deletes data.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

from drumlin.config.config_error import UnknownKey
from drumlin.config.keys import FREE_PREFIXES, Key, broker_keys, topic_keys
from drumlin.config.synonyms import BROKER_SYNONYMS

#: Broker keys of older Kafka releases -> the current keys.
RENAMED_BROKER_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "advertised.host.name": ("advertised.listeners",),
    "advertised.port": ("advertised.listeners",),
    "brokerid": ("node.id",),
    "compression.codec": ("compression.type",),
    "host.name": ("listeners",),
    "hostname": ("listeners",),
    "log.cleanup.interval.mins": ("log.retention.check.interval.ms",),
    "log.default.flush.interval.ms": ("log.flush.interval.ms",),
    "log.default.flush.scheduler.interval.ms": ("log.flush.scheduler.interval.ms",),
    "log.file.size": ("log.segment.bytes",),
    "log.flush.interval": ("log.flush.interval.messages",),
    "log.index.max.size": ("log.index.size.max.bytes",),
    "log.retention.size": ("log.retention.bytes",),
    "max.message.size": ("message.max.bytes",),
    "max.socket.request.bytes": ("socket.request.max.bytes",),
    "message.timestamp.difference.max.ms": (
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
    ),
    "num.threads": ("num.network.threads", "num.io.threads"),
    "port": ("listeners",),
    "socket.receive.buffer": ("socket.receive.buffer.bytes",),
    "socket.send.buffer": ("socket.send.buffer.bytes",),
}

#: Broker keys of older releases without a current counterpart -> what to do instead.
REMOVED_BROKER_KEYS: Final = {
    "controller.message.queue.size": "Kafka has removed it",
    "enable.zookeeper": "Kafka has removed it; zookeeper.connect says whether there is one",
    "log.flush.interval.ms.per.topic": "Kafka has removed it; set flush.ms of the topic",
    "log.retention.bytes.per.topic": "Kafka has removed it; set retention.bytes of the topic",
    "log.retention.hours.per.topic": "Kafka has removed it; set retention.ms of the topic",
    "log.roll.hours.per.topic": "Kafka has removed it; set segment.ms of the topic",
    "log.segment.bytes.per.topic": "Kafka has removed it; set segment.bytes of the topic",
    "offsets.storage": "Kafka has removed it; offsets are always kept in __consumer_offsets",
    "quota.consumer.default": "Kafka has removed it, and there are no quotas here",
    "quota.producer.default": "Kafka has removed it, and there are no quotas here",
    "replica.lag.max.messages": "Kafka has removed it",
    "topic.flush.intervals.ms": "Kafka has removed it; set flush.ms of the topic",
    "topic.log.retention.hours": "Kafka has removed it; set retention.ms of the topic",
    "topic.partition.count.map": "Kafka has removed it; give the partitions on creating the topic",
    "zk.connect": "it is zookeeper.connect today",
    "zk.connectiontimeout.ms": "it is zookeeper.connection.timeout.ms today",
    "zk.sessiontimeout.ms": "it is zookeeper.session.timeout.ms today",
    "zk.synctime.ms": "it is zookeeper.sync.time.ms today, which has no effect here",
}

#: Topic keys of older releases, or broker keys in another unit -> the current topic keys.
RENAMED_TOPIC_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "log.message.timestamp.difference.max.ms": (
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    ),
    "message.timestamp.difference.max.ms": (
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    ),
    "retention.hours": ("retention.ms",),
    "retention.minutes": ("retention.ms",),
    "segment.hours": ("segment.ms",),
}

#: Topic keys of older releases without a current counterpart -> what to do instead.
REMOVED_TOPIC_KEYS: Final = {
    "message.downconversion.enable": "Kafka has removed it, with the fetch versions it was for",
    "message.format.version": "Kafka has removed it; records are always kept in format 2",
}

_CLOSE_ENOUGH: Final = 0.8
_GUESSED_MAX: Final = 64  # characters: comparing longer names would take a turn of the loop


def known_broker_key(name: str, value: str | None) -> Key | None:
    """The broker key `name`; None for a key of a listener or plugin, which may have any name.

    Raises:
        UnknownKey: the key does not exist.
    """
    key = broker_keys().get(name)
    if key is None and not name.startswith(FREE_PREFIXES):
        raise UnknownKey(name, value, broker_hint(name))
    return key


def broker_hint(name: str) -> str | None:
    """A suggestion for `name`, which is not a broker key; None if there is none."""
    removed = REMOVED_BROKER_KEYS.get(name)
    return removed or _question(todays_broker_keys(name) or _similar(name, broker_keys(), 0.6))


def todays_broker_keys(name: str) -> tuple[str, ...]:
    """The current broker keys for a topic key or an older name; empty for other names."""
    synonyms = BROKER_SYNONYMS.get(name)
    return (synonyms[0][0],) if synonyms else RENAMED_BROKER_KEYS.get(name, ())


@lru_cache(256)
def topic_hint(name: str) -> str | None:
    """A suggestion for `name`, which is not a topic key; None if there is none."""
    removed = REMOVED_TOPIC_KEYS.get(name)
    return removed or _question(_todays_topic_keys(name) or _similar(name, topic_keys()))


def _todays_topic_keys(name: str) -> tuple[str, ...]:
    """The current topic keys for a broker key, or for an older broker or topic key."""
    names = (name, *RENAMED_BROKER_KEYS.get(name, ()))
    of_broker = tuple(
        key
        for key, synonyms in BROKER_SYNONYMS.items()
        if any(synonym in names for synonym, _ in synonyms)
    )
    return RENAMED_TOPIC_KEYS.get(name, of_broker)


def _similar(name: str, keys: Mapping[str, Key], cutoff: float = _CLOSE_ENOUGH) -> Collection[str]:
    if len(name) > _GUESSED_MAX:
        return ()
    return difflib.get_close_matches(name, keys, n=1, cutoff=cutoff)


def _question(meant: Collection[str]) -> str | None:
    return f"did you mean {' and '.join(meant)}?" if meant else None
