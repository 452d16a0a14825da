"""Records that a coordinator has appended, until all in-sync replicas have them.

    decide -> records -> append -> apply -> answer

An appended record is applied at once; the answer is given when all in-sync replicas have it. Errors
raised here are those for clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from drumlin.coordination.shards.log_errors import as_told
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.shards.state_topic import Confirmation, LedPartition
from drumlin.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")


class StateLog:
    """The appended records of one topic. `timeout_ms()`: how long to wait for the replicas."""

    def __init__(self, timeout_ms: Callable[[], int]) -> None:
        self._timeout_ms = timeout_ms
        self._unconfirmed: set[Confirmation] = set()

    def confirm(self, led: LedPartition) -> Confirmation:
        """The confirmation of all records appended to a partition so far, if one is needed."""
        confirmation = led.confirm()
        self._unconfirmed.add(confirmation)
        confirmation.add_done_callback(self._unconfirmed.discard)
        return confirmation

    def written(self, answer: T, confirmation: Confirmation | None) -> Written[T]:
        """The answer, to be given when `confirmation` is done."""
        if confirmation is None:
            return Written(answer)
        return Written(answer, partial(self.confirmed, confirmation))

    async def confirmed(self, confirmation: Confirmation | None) -> None:
        """Wait until all in-sync replicas have the appended records.

        Raises:
            KafkaError: some replicas are not known to have them.
        """
        if confirmation is None:
            return
        if not confirmation.done():
            await asyncio.wait([confirmation], timeout=self._timeout_ms() / 1000)
        if not confirmation.done():
            raise as_told(KafkaError(ErrorCode.request_timed_out))
        try:
            confirmation.result()
        except KafkaError as error:
            raise as_told(error) from error

    @property
    def has_unconfirmed(self) -> bool:
        """Whether some appended records are not yet on all in-sync replicas."""
        return bool(self._unconfirmed)

    async def all_confirmed(self) -> None:
        """Wait until all in-sync replicas have the records appended so far.

        Raises:
            KafkaError: NOT_COORDINATOR, the wait takes too long.
        """
        if self._unconfirmed:
            _, late = await asyncio.wait(self._unconfirmed, timeout=self._timeout_ms() / 1000)
            if late:
                raise KafkaError(ErrorCode.not_coordinator)
