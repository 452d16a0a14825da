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
    """From a topic's history to a new topic."""

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

        The new topic has as many partitions and replicas as the old one, and the configuration
        that was set for it; records keep partition, order, timestamp and headers. It is one
        transaction, which brokers abort if it takes longer than they allow
        (`transaction.max.timeout.ms`, 15 minutes by default); until it is committed read_committed
        readers see nothing. If it fails or its process dies, call it again: what was written is
        aborted, and written anew. Once it is complete, the same call finds that out and does
        nothing, for as long as brokers keep the offsets of the group `drumlin-restore-TOPIC`.

        Args:
            topic: the topic to read. Only leaders are read, and only committed records.
            to: the topic to write. It is created, or is there and has no records.
            at: the point, as in `snapshot`; None: now.
            records: write the records themselves, tombstones included, and not the state.
            first: the same, and of each partition at most so many, from the log's start on.
            configs: configuration keys of the new topic, before those of the old one.
            compression: "none", "gzip", "snappy", "lz4" or "zstd".
            timeout_ms: how long the transaction may take; None: as long as brokers allow.
            memory_bytes: what the state of one partition may take, as in `snapshot_batches`.
            allow_inexact: write what the log still tells of a state that it does not tell exactly,
                or what is left of the records.
            on_progress: called with the number of records of each batch that was written.

        Returns:
            `source`, `target`, `end_offsets` (up to where each partition was read), `record_count`,
            and `was_there`: an earlier call had done it.

        Raises:
            NotRestored: `to` has records, other partitions, or was restored from something else.
            TransactionTimedOut: it took too long; nothing of it is visible.
            ProducerFenced: another restore into this topic has begun meanwhile.
            StateNotExact, UnknownTopic, OffsetOutOfRange: as from `snapshot`.
            TypeError, ValueError: an argument cannot have this value.
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
