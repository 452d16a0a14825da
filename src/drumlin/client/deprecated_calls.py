"""Deprecated calls of a `Client`, which were renamed or moved to `drumlin.lowlevel`.

They warn, and will be removed in the version after the next. Nothing else may call them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from drumlin.client.admin import admin
from drumlin.client.admin.admin import TopicDescription
from drumlin.client.calls import Calls
from drumlin.client.errors import ClientError
from drumlin.client.other_names.deprecation import was_called
from drumlin.client.read import log_sizes
from drumlin.client.state import exact_states
from drumlin.client.topic_partition import TopicPartition, as_partitions
from drumlin.client.transactions import many, transaction_end
from drumlin.client.transactions.requests import OpenTransaction


class DeprecatedCalls(Calls):
    """The names of version 0.1."""

    def topics(self, names: Sequence[str] | None = None) -> dict[str, TopicDescription]:
        """`describe_topics`."""
        was_called("Client.topics", "Client.describe_topics")
        return self._run(admin.describe_topics(self._connections, names))

    def partition_sizes(self, partitions: Collection[tuple[str, int]]) -> dict[TopicPartition, int]:
        """`lowlevel.partition_sizes`."""
        was_called("Client.partition_sizes", "drumlin.lowlevel.partition_sizes")
        places = as_partitions(partitions)
        return self._run(log_sizes.partition_sizes(self._connections, places))

    def exact_from(self, topic: str) -> dict[int, int]:
        """`lowlevel.exact_from`."""
        was_called("Client.exact_from", "drumlin.lowlevel.exact_from")
        return self._run(exact_states.exact_from_of_topic(self._connections, topic))

    def end_transaction(self, transaction: OpenTransaction, commit: bool) -> None:
        """`lowlevel.end_transaction`."""
        was_called("Client.end_transaction", "drumlin.lowlevel.end_transaction")
        identity = OpenTransaction(*transaction)
        self._run(transaction_end.end_transaction(self._connections, identity, commit=commit))

    def end_transactions(
        self,
        transactions: Collection[OpenTransaction],
        commit: bool,
        *,
        are_written: bool = False,
    ) -> dict[OpenTransaction, ClientError | None]:
        """`lowlevel.end_transactions`."""
        was_called("Client.end_transactions", "drumlin.lowlevel.end_transactions")
        ending = many.end_all(
            self._connections, transactions, commit=commit, are_written=are_written
        )
        return self._run(ending)
