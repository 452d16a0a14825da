"""The calls of a `Client` that restore a topic into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from drumlin.client import arguments
from drumlin.client.arguments import STATE_BYTES, ConfigValue
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.places import Point
from drumlin.client.restore.restore_marker import RestoreRequest
from drumlin.client.transactions.calls import TransactionCalls
from drumlin.client.transactions.transaction import Transaction

if TYPE_CHECKING:
    from drumlin.client.restore.restoring import Progress, RestoreReport


class RestoreCalls(TransactionCalls):
    """The calls that restore topics."""

    def restore(
        self,
        topic: str,
        to: str,
        *,
        at: Point | None = None,
        records: bool = False,
        first: int | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
        compression: str = "none",
        timeout_ms: int | None = None,
        memory_bytes: int = STATE_BYTES,
        allow_inexact: bool = False,
        on_progress: Progress | None = None,
    ) -> RestoreReport:
        """Write a topic's state, or its records up to a point, into a new topic: all or nothing.

        The new topic has as many partitions and replicas as the old one, and its configuration;
        records keep partition, order, timestamp and headers. A restore is one transaction, which
        brokers abort if it takes longer than their maximum (`transaction.max.timeout.ms`, 15
        minutes by default); until it is committed, read_committed readers see nothing. If it fails
        or its process dies, call it again: it aborts the written records and writes again. After
        a complete restore the same call does nothing, for as long as the brokers keep the offsets
        of the group `drumlin-restore-TOPIC`.

        Args:
            topic: the topic to read. Only leaders are read, and only committed records.
            to: the topic to write. It is created, or must have no records.
            at: the point, as in `snapshot`; None: now.
            records: write the records themselves, including tombstones, instead of the state.
            first: like `records`, with at most this many of each partition, from the log's start.
            configs: configuration keys of the new topic, which override those of the old one.
            compression: "none", "gzip", "snappy", "lz4" or "zstd".
            timeout_ms: the timeout of the transaction; None: the brokers' maximum.
            memory_bytes: the memory limit of one partition's state, as in `snapshot_batches`.
            allow_inexact: write the rest of a state, or of the records, even if the cleaner has
                removed some.
            on_progress: called after each batch with the number of its records.

        Returns:
            `source`, `target`, `end_offsets` (the end of reading in each partition),
            `record_count`, and `was_there`: an earlier call had already restored the topic.

        Raises:
            NotRestored: `to` has records, another number of partitions, or is the target of
                another restore.
            TransactionTimedOut: the restore took too long; no record is visible.
            ProducerFenced: another restore into this topic has begun meanwhile.
            StateNotExact, UnknownTopic, OffsetOutOfRange: as from `snapshot`.
            TypeError, ValueError: an argument is invalid.
        """
        with needing_arrow():
            from drumlin.client.restore.restoring import RestoreOptions, Restorer
        arguments.text("to", to)
        arguments.compression_name(compression)
        texts = arguments.config_values("configs", configs or {})
        request = RestoreRequest(topic, at, records, first)
        request.check()
        options = RestoreOptions(texts, compression, timeout_ms, memory_bytes, allow_inexact)

        def begin(transactional_id: str, timeout_ms: int | None) -> Transaction:
            return self.transaction(transactional_id, timeout_ms=timeout_ms)

        restorer = Restorer(self._thread, self._connections, begin, request, options, on_progress)
        return restorer.run(to)
