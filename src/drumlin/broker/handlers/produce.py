"""Produce (key 0), versions 3-13: append a record batch to each named partition.

- Answered once the leader has the batch (acks=1), or all in-sync replicas have it (acks=-1), or
  never (acks=0: an error closes the connection, as the only signal).
- Every partition succeeds or fails by itself; a batch that fails leaves nothing in the log.
- With `flush.messages`, answered after the fsync that the batch made due.
- Transactional batches are held back until the transaction is known to include the partition
  (`produce_verification.py`); the connection's next request waits too, which preserves the order.
- Slow checks run in a thread, and many partitions take more than one turn of the loop; the
  connection's next request waits for those, too.

Version notes: 7 allows zstd; 8 adds `record_errors` and `error_message` (KIP-467); 10 adds
the current leader to NOT_LEADER_OR_FOLLOWER (KIP-951); 11 adds TRANSACTION_ABORTABLE, and 12
adds partitions to their transaction (KIP-890); 13 names topics by id.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import LaterParts, Parts, begun
from drumlin.broker.producing.produce_appends import ProduceAppends
from drumlin.wire.by_hand.produce_request import ManyPartitions, read_produce_request
from drumlin.wire.error_codes import MalformedMessage

#: Partitions that are read and appended in one turn of the loop.
_AT_ONCE_MAX: Final = 200
#: More partitions than any broker leads.
_PARTITIONS_MAX: Final = 20_000


def answer(context: RequestContext, frame: memoryview) -> Parts | LaterParts | None:
    header = context.header
    try:
        request = read_produce_request(header.api_version, frame, header.size, _AT_ONCE_MAX)
    except ManyPartitions:
        return begun(_answer_many(context, frame))
    return ProduceAppends(context, request).start()


async def _answer_many(context: RequestContext, frame: memoryview) -> Parts | LaterParts | None:
    appends = await context.broker.threads.making(_read_many, context, frame)
    return await appends.append_in_turns()


def _read_many(context: RequestContext, frame: memoryview) -> ProduceAppends:
    header = context.header
    try:
        request = read_produce_request(header.api_version, frame, header.size, _PARTITIONS_MAX)
        return ProduceAppends(context, request)
    except ManyPartitions:
        raise MalformedMessage(f"more than {_PARTITIONS_MAX} topics and partitions") from None
