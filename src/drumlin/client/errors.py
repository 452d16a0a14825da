"""The errors that the client raises.

All derive from `ClientError`, and from a built-in exception if one fits, so that
`except ConnectionError` and `except TimeoutError` work as expected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

from drumlin.peer.peer_error import AuthenticationFailed as NotAuthentic
from drumlin.peer.peer_error import ConnectionLost, PeerError, RequestTimeout
from drumlin.peer.rights import Denied
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.exact_from import UNKNOWN_YET

T = TypeVar("T")


class ClientError(Exception):
    """Base class of all errors of the client."""


class BrokerUnreachable(ClientError, ConnectionError):
    """No broker could be reached, or a connection broke and could not be restored in time."""


class AuthenticationFailed(ClientError, PermissionError):
    """A broker is not trusted, or refuses the login. A retry does not help."""


class RequestTimedOut(ClientError, TimeoutError):
    """A broker did not answer in time."""


class RequestRefused(ClientError):
    """A broker answered with an error; `code` is the protocol's."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


class UnknownTopic(RequestRefused, LookupError):
    """There is no such topic, or no such partition of it."""


class TopicExists(RequestRefused):
    """A topic of that name already exists."""


class NotAuthorized(RequestRefused, PermissionError):
    """The client's user is not authorized for the request."""


class OffsetOutOfRange(ClientError, LookupError):
    """The log does not have the offset at which reading should start."""

    def __init__(
        self, topic: str, partition: int, offset: int, log_start_offset: int, end_offset: int
    ) -> None:
        super().__init__(
            f"topic {topic!r} partition {partition}: offset {offset} is out of range, "
            f"the log holds {log_start_offset} to {end_offset} (exclusive)"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.end_offset = end_offset


class LogTruncated(OffsetOutOfRange):
    """The log lost records that this consumer has read.

    Either it was truncated (unclean leader election), or the topic was deleted and recreated.
    `end_offset` is the end of the part that both logs share; -1 if the leader does not know it.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        end_offset: int,
        *,
        is_new_topic: bool = False,
    ) -> None:
        super().__init__(topic, partition, offset, -1, end_offset)
        where = f"topic {topic!r} partition {partition}"
        how = "topic was deleted and made again" if is_new_topic else "log was truncated"
        gone = f"the {how}, and lost records before offset {offset} that were read"
        self.args = (f"{where}: {gone}; the log is unchanged up to {end_offset}",)


class NoCommittedOffset(ClientError, LookupError):
    """The group has no committed offset, which `start="committed"` requires."""


class CommitFailed(ClientError):
    """Offsets were not committed: the consumer is no longer a member, or a rebalance is going on.

    Records since the last commit are read again, by the members that get the partitions.
    """

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class OffsetStoreFailed(ClientError):
    """ZooKeeper, which stores the group's offsets, refuses a request, or has an invalid offset.

    `may_pass`: a retry may succeed. The message names ZooKeeper and the node.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class OffsetStoreUnreachable(OffsetStoreFailed, ConnectionError):
    """ZooKeeper does not answer. The offsets may be committed or not."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_pass=True)


class MembershipEnded(RequestRefused):
    """The group refuses this consumer permanently, e.g. as another one has its instance id."""


class LogEndsEarly(ClientError):
    """The log ends before the end offset of the range to read."""


class RecordsMissing(ClientError, LookupError):
    """A range that must be read without gaps has gaps, for example after compaction."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"topic {topic!r} partition {partition}: records are missing from offset {offset} on"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class StateNotExact(ClientError, LookupError):
    """The log no longer has the exact state at an offset.

    `exact_from` is the first end offset with an exact state; None if it is unknown.
    """

    def __init__(
        self, topic: str, partition: int, end_offset: int, exact_from: int | None, why: str
    ) -> None:
        if exact_from == UNKNOWN_YET:
            exact_from = None
        hint = "" if exact_from is None else f"; the earliest exact state is at {exact_from}"
        super().__init__(
            f"topic {topic!r} partition {partition}: the state at offset {end_offset} can't be "
            f"read exactly: {why}{hint}. To read what is left of it, allow an inexact state"
        )
        self.topic = topic
        self.partition = partition
        self.end_offset = end_offset
        self.exact_from = exact_from


class EqualKeys(ClientError, LookupError):
    """Two partitions have a value for the same key, so the key has no unique value in a mapping."""

    def __init__(self, topic: str, key: bytes) -> None:
        super().__init__(
            f"topic {topic!r}: two partitions have a value for the key {key[:100]!r}. A mapping "
            "needs partitions that share no key: name these"
        )
        self.key = key


class TableTooLarge(ClientError, MemoryError):
    """A table exceeds its memory limit, and may not use the disk."""


class FollowingEnded(ClientError):
    """A table is no longer updated, as a callback has raised an exception (the cause)."""


class CorruptData(ClientError):
    """A fetched record batch is damaged, in transit or in the log."""


class Undecodable(ClientError, ValueError):
    """A key or a value cannot be decoded: it is not UTF-8, or not JSON. Names the record."""


class DeliveryFailed(ClientError):
    """Records could not be written. `acknowledged` counts those records of the call that were.

    `may_be_written`: the records were sent but not acknowledged, so they may be in the log, once.
    If it is False, they are not in the log.
    """

    def __init__(
        self, message: str, acknowledged: int = 0, *, may_be_written: bool = False
    ) -> None:
        super().__init__(message)
        self.acknowledged = acknowledged
        self.may_be_written = may_be_written


class NotRestored(ClientError):
    """A topic was not restored, as the target topic is not suitable."""


class BufferFull(ClientError, TimeoutError):
    """A writer's buffer stayed full for too long."""


_REFUSALS: dict[ErrorCode, type[RequestRefused]] = {
    ErrorCode.unknown_topic_or_partition: UnknownTopic,
    ErrorCode.topic_already_exists: TopicExists,
    ErrorCode.topic_authorization_failed: NotAuthorized,
    ErrorCode.group_authorization_failed: NotAuthorized,
    ErrorCode.cluster_authorization_failed: NotAuthorized,
    ErrorCode.transactional_id_authorization_failed: NotAuthorized,
}


def as_client_error(error: KafkaError | PeerError) -> ClientError:
    """The client's error for an error of the layers below."""
    if isinstance(error, KafkaError):
        kind = _REFUSALS.get(error.code, RequestRefused)
        if isinstance(error, Denied):
            return NotAuthorized(str(error), error.code)
        if kind is NotAuthorized:
            what = error.message or "the request"
            return kind(f"{what}: this user has no right to it ({error.code.name})", error.code)
        return kind(str(error), error.code)
    if isinstance(error, NotAuthentic):
        return AuthenticationFailed(str(error))
    if isinstance(error, ConnectionLost):
        return BrokerUnreachable(str(error))
    if isinstance(error, RequestTimeout):
        return RequestTimedOut(str(error))
    return ClientError(str(error))


def as_delivery_failed(
    topic: str, partition: int, error: BaseException, *, may_be_written: bool = False
) -> DeliveryFailed:
    """The error for records of a partition that were not written because of `error`."""
    where = f"topic {topic!r} partition {partition}"
    if type(error) is KafkaError:
        reason = (error.message or "").removeprefix(where).removeprefix(": ")
        why = ": ".join(filter(None, [error.code.name, reason]))
    else:
        why = str(error)
    message = why if why.startswith(where) else f"{where}: {why}"
    failure = DeliveryFailed(message, may_be_written=may_be_written)
    failure.__cause__ = error
    return failure


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the layers below into errors of the client.

    A traceback shows one error, not the same error twice; the original is its `__context__`. The
    original's notes are kept.
    """
    try:
        yield
    except (KafkaError, PeerError) as error:
        failure = as_client_error(error)
        for note in getattr(error, "__notes__", ()):
            failure.add_note(note)
        raise failure from None


def translating(items: Iterable[T]) -> Iterator[T]:
    """Yield the items unchanged; errors raised by the iteration are `translated`."""
    with translated():
        yield from items
