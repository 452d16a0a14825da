"""The offsets that a client asks to commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from drumlin.coordination.groups.every_kind.committer import Committer, OffsetCheck
from drumlin.coordination.shards.state_batches import Producer
from drumlin.turns import give_way
from drumlin.wire.by_hand.commit_request import PIECE_MAX, TopicOffsets
from drumlin.wire.error_codes import ErrorCode, KafkaError


class Commit(NamedTuple):
    """A client's request to commit offsets of a group."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    retention_ms: int | None
    """Sent only by the oldest clients; None means the broker's retention time."""
    offsets: Sequence[TopicOffsets]
    """The offsets, in pieces of at most `PIECE_MAX`; a topic may occur several times."""
    version: int = 10
    """The version of the request, on which the checks depend."""
    producer: Producer | None = None
    """The producer of the transaction; if None, the commit takes effect at once."""

    @property
    def is_one_piece(self) -> bool:
        """Whether the offsets can be committed in one turn."""
        return len(self.offsets) == 1 and len(self.offsets[0].partitions) <= PIECE_MAX

    @property
    def committer(self) -> Committer:
        is_transactional = self.producer is not None
        return Committer(
            self.member_id,
            self.group_instance_id,
            self.generation_id,
            is_transactional,
            self.version,
        )


def is_longer(metadata: bytes, java_length_max: int) -> bool:
    """Whether a text is longer than the limit as Kafka counts it: in UTF-16 units."""
    if len(metadata) <= java_length_max:
        return False  # each unit takes at least one byte
    return len(metadata.decode().encode("utf-16-le")) // 2 > java_length_max


async def sorted_out(
    commit: Commit, check: OffsetCheck | None, metadata_max_bytes: int
) -> tuple[list[ErrorCode], list[TopicOffsets]]:
    """An error code for each offset in order, and the offsets that may be committed.

    Yields to the event loop if there is more than one piece.
    """
    codes: list[ErrorCode] = []
    accepted: list[TopicOffsets] = []
    for piece in commit.offsets:
        if codes:
            await give_way()
        found = _codes(piece, check, metadata_max_bytes)
        if found is None:
            codes += [ErrorCode.none] * len(piece.partitions)
            accepted.append(piece)
        else:
            codes += found
            fine = [index for index, code in enumerate(found) if code is ErrorCode.none]
            if fine:
                accepted.append(piece.some(fine))
    return codes, accepted


def counts_partly(commit: Commit, count: int, error: KafkaError) -> bool:
    """Whether the first `count` offsets stay committed if the next ones are refused.

    They do not in a transaction: its offsets take effect only with the marker, and a client that
    gets an error sends all offsets again before it ends the transaction. Nor do they if the group
    was deleted meanwhile, together with its offsets.
    """
    is_gone = error.code is ErrorCode.group_id_not_found
    return count > 0 and commit.producer is None and not is_gone


async def partly(codes: Sequence[ErrorCode], count: int, code: ErrorCode) -> list[ErrorCode]:
    """The codes if only the first `count` of the accepted offsets were committed."""
    answered: list[ErrorCode] = []
    for start in range(0, len(codes), PIECE_MAX):
        for each in codes[start : start + PIECE_MAX]:
            if each is not ErrorCode.none:
                answered.append(each)
            else:
                answered.append(ErrorCode.none if count > 0 else code)
                count -= 1
        await give_way()
    return answered


def _codes(
    offsets: TopicOffsets, check: OffsetCheck | None, metadata_max_bytes: int
) -> list[ErrorCode] | None:
    """A code for each offset; None if all may be committed."""
    topic_id, metadata = offsets.topic_id, offsets.metadata
    if check is None and metadata is None:
        return None
    if check is None:
        codes = [ErrorCode.none] * len(offsets.partitions)
    else:
        codes = [check(topic_id, partition) for partition in offsets.partitions]
    for index, text in enumerate(metadata or ()):
        if is_longer(text, metadata_max_bytes):
            codes[index] = ErrorCode.offset_metadata_too_large
    return codes
