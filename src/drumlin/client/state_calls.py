"""The calls of a `Client` about the state that a log tells: the last value of every key."""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.client import arguments, exact_states
from drumlin.client.calls import Calls
from drumlin.client.offsets import TopicPartition
from drumlin.client.state_claims import Claims


class StateCalls(Calls):
    """From a log to the table that was written as it."""

    def exact_from(self, topic: str) -> dict[int, int]:
        """From which end offset on the log tells every state that it had, for each partition.

        A state before that can't be read exactly any more: the cleaner has removed records of it.
        Partitions whose brokers do not tell are left out, and so all of an Apache Kafka.

        Raises:
            UnknownTopic: there is no such topic.
        """
        arguments.text("topic", topic)
        return self._run(self._exact_from(topic))

    async def _exact_from(self, topic: str) -> dict[int, int]:
        partitions = await self._connections.partitions(topic)
        places = [(topic, each) for each in partitions]
        found = await exact_states.exact_from(self._connections, places)
        return {partition: offset for (_, partition), (offset, _) in found.items()}

    def claim_states(
        self,
        end_offsets: Mapping[TopicPartition, int],
        *,
        is_now: bool = False,
        allow_inexact: bool = False,
    ) -> Claims:
        """Make sure, before logs are read, that they tell the states which they had at offsets.

        What is read afterwards is exact if `confirm_states` finds so; a claim that `needs_all` has
        to be read with `without_gaps`, from offset 0 on. All must be read from the leaders.

        Args:
            end_offsets: the offset after the last record of each state.
            is_now: these are the ends of the logs, looked up just now.
            allow_inexact: what is left of the states will do.

        Raises:
            StateNotExact: a log does not tell its state.
        """
        claiming = exact_states.claim_states(
            self._connections, end_offsets, is_now=is_now, allow_inexact=allow_inexact
        )
        return self._run(claiming)

    def confirm_states(self, claims: Claims) -> None:
        """Make sure, after logs were read, that what was read is what was claimed.

        Raises:
            StateNotExact: a cleaner, or another leader, has come in between.
        """
        self._run(exact_states.confirm_states(self._connections, claims))
