"""Performs the protocol's requests with a client. This module must never decide anything.

The client's errors reach the protocol as `RequestFailed`. Errors about the end of a transaction
are told apart by outcome, as the protocol depends on that.
"""

from __future__ import annotations

import contextlib
import logging
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import pyarrow as pa

from drumlin import (
    OffsetAndMetadata,
    ProducerFenced,
    Transaction,
    TransactionAborted,
    UnknownTransaction,
    lowlevel,
)
from drumlin.client.client import Client
from drumlin.client.errors import (
    ClientError,
    LogEndsEarly,
    NotAuthorized,
    OffsetOutOfRange,
    RequestRefused,
    UnknownTopic,
)
from drumlin.client.topic_partition import TopicPartition
from drumlin.lowlevel import OpenTransaction
from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol import requests as ask
from drumlin.spark.writing.protocol.sink_errors import Fenced, RequestFailed
from drumlin.spark.writing.protocol.state import Anchor
from drumlin.spark.writing.protocol.transactions import Opened
from drumlin.wire.error_codes import ErrorCode

R = TypeVar("R")

_logger = logging.getLogger(__name__)

#: A driver's transaction takes milliseconds. While it is open, other sinks' decisions cannot be
#: searched, so a dead driver's transaction must time out soon.
_DRIVER_TIMEOUT_MS: Final = 60_000
_PAUSE_S: Final = 0.05
#: Decision topics whose cleanup policy was checked, by cluster.
_seen_topics: weakref.WeakKeyDictionary[Client, set[str]] = weakref.WeakKeyDictionary()
#: Small segments, so that replaced records are compacted soon; one decision may list many tasks.
_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "max.message.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}


class Performer:
    """Runs the protocol's steps for one process; keeps the transactions that they open."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._transactions: dict[Opened, Transaction] = {}

    def run(self, steps: ask.Steps[R]) -> R:
        """Perform request after request, and return the result of the steps."""
        try:
            request = next(steps)
            while True:
                try:
                    answer = self.perform(request)
                except RequestFailed as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result

    def perform(self, request: ask.Request) -> Any:
        """
        Raises:
            RequestFailed: the cluster has refused the request, or not answered.
        """
        try:
            return _PERFORMED[type(request)](self, request)
        except (ProducerFenced, TransactionAborted) as error:
            raise Fenced(str(error)) from error
        except NotAuthorized as error:
            raise RequestFailed(f"{error}. The sink needs {_right(request, error)}") from error
        except ClientError as error:
            raise RequestFailed(str(error)) from error

    def transaction(self, opened: Opened) -> Transaction:
        """The client's side of a transaction that this process has begun."""
        return self._transactions[opened]

    def take_over(self, opened: Opened, transaction: Transaction) -> None:
        """Adopt a transaction that an earlier performer has handed over."""
        self._transactions[opened] = transaction

    def hand_over(self, opened: Opened) -> Transaction:
        """Detach a transaction; `close` then leaves it open."""
        return self._transactions.pop(opened)

    def close(self) -> None:
        """Abort the transactions that a driver has begun and not ended."""
        for each in self._transactions.values():
            if each.state == "open":
                with contextlib.suppress(ClientError):
                    each.abort()
        self._transactions.clear()

    # -- decisions -------------------------------------------------------------------------

    def _fetch_anchor(self, it: ask.FetchAnchor) -> Anchor | None:
        found = self._client.committed_offsets(it.group, require_stable=it.is_stable)
        place = found.get(TopicPartition(it.topic, 0))
        return None if place is None else Anchor(place.offset, place.metadata)

    def _read_record(self, it: ask.ReadRecord) -> bytes | None:
        # The record is committed, as its offset is: open transactions of other sinks don't matter.
        try:
            batches = list(self._client.read_range(it.topic, 0, it.offset, it.offset + 1))
        except (UnknownTopic, OffsetOutOfRange, LogEndsEarly):
            return None
        return _last_with_key(batches, it.key)

    def _find_record(self, it: ask.FindRecord) -> bytes | None:
        # A missing topic does not mean that nothing was decided: it was created, so it was deleted.
        place = TopicPartition(it.topic, 0)
        end = self._client.list_offsets({place: "latest"})[place].offset
        self._wait_until_stable(it.topic, end)
        batches = self._client.read_batches(it.topic, [0], end=end, isolation="read_committed")
        return _last_with_key(batches, it.key)

    def _wait_until_stable(self, topic: str, end: int) -> None:
        """Wait until no transaction is open before `end`: it could hide the record.

        Raises:
            RequestFailed: this takes longer than a dead driver's transaction may.
        """
        place = TopicPartition(topic, 0)
        until = time.monotonic() + _DRIVER_TIMEOUT_MS / 1000 + 30
        while time.monotonic() < until:
            stable = self._client.list_offsets({place: "latest"}, isolation="read_committed")
            if stable[place].offset >= end:
                return
            time.sleep(_PAUSE_S)
        raise RequestFailed(
            f"topic {topic!r}: an open transaction holds up its readers; "
            "`drumlin transactions list` shows whose it is"
        )

    def _prepare_topic(self, it: ask.PrepareTopic) -> None:
        if lowlevel.look_up_topics(self._client, [it.topic]).found:
            self._check_cleanup(it.topic)
            return
        try:
            self._client.create_topic(it.topic, 1, configs=_TOPIC_CONFIGS, if_not_exists=True)
        except NotAuthorized as error:
            raise RequestFailed(
                f"the sink keeps its decisions in topic {it.topic!r}, and this user may neither "
                "see nor create it. If it is missing, create it, with 1 partition and "
                "cleanup.policy=compact; the user needs Read and Write on it"
            ) from error

    def _check_cleanup(self, topic: str) -> None:
        """
        Raises:
            RequestFailed: its retention would silently delete decisions, by age or size.
        """
        seen = _seen_topics.setdefault(self._client, set())
        if topic in seen:
            return
        try:
            configs = self._client.topic_configs(topic)
        except NotAuthorized:  # the sink does not need the right to describe it
            return
        policy = configs["cleanup.policy"].value or ""
        limits = [configs[each].value for each in ("retention.ms", "retention.bytes")]
        if "delete" in policy and limits != ["-1", "-1"]:
            raise RequestFailed(
                f"topic {topic!r}, where the sink keeps its decisions, has cleanup.policy={policy}:"
                " decisions would be deleted, and batches written twice. Set the topic's "
                "cleanup.policy to compact, or the option 'decisionTopic' to another topic"
            )
        seen.add(topic)

    # -- transactions ----------------------------------------------------------------------

    def _describe(self, it: ask.Describe) -> dict[str, ask.Description]:
        found = self._client.describe_transactions(it.transactional_ids)
        return {
            name: ask.Description(
                each.state,
                each.producer_id,
                each.epoch,
                -1 if each.start_time is None else round(each.start_time.timestamp() * 1000),
                each.timeout_ms,
            )
            for name, each in found.items()
        }

    def _list_open(self, it: ask.ListOpen) -> tuple[str, ...]:
        found = self._client.list_transactions(states=("Ongoing",))
        names = (each.transactional_id for each in found)
        return tuple(name for name in names if name.startswith(it.prefix))

    def _init_task(self, it: ask.InitTask) -> Opened:
        try:
            return self._begin(it.transactional_id, it.timeout_ms)
        except RequestRefused as error:
            if error.code is not ErrorCode.invalid_transaction_timeout:
                raise
            raise RequestFailed(
                f"the brokers allow no transaction of {it.timeout_ms} ms, see their "
                "transaction.max.timeout.ms: set the option 'kafka.transaction.timeout.ms' to "
                "less, or leave it out"
            ) from error

    def _init_driver(self, it: ask.InitDriver) -> Opened:
        try:
            return self._begin(it.transactional_id, _DRIVER_TIMEOUT_MS)
        except RequestRefused as error:
            if error.code is not ErrorCode.invalid_transaction_timeout:
                raise
            return self._begin(it.transactional_id, None)  # the brokers allow even less

    def _begin(self, transactional_id: str, timeout_ms: int | None) -> Opened:
        begun = self._client.transaction(transactional_id, timeout_ms=timeout_ms)
        opened = Opened(begun.transactional_id, begun.producer_id, begun.epoch)
        self._transactions[opened] = begun
        return opened

    def _flush(self, it: ask.Flush) -> None:
        lowlevel.detach(self._transactions[it.opened])

    def _abort_own(self, it: ask.AbortOwn) -> None:
        begun = self._transactions.pop(it.opened, None)
        if begun is None:
            return
        try:
            if begun.state == "detached":
                lowlevel.end_transaction(self._client, OpenTransaction(*it.opened), commit=False)
            else:
                begun.abort()
        except ClientError as error:
            _logger.warning("left to its timeout: %s", error)

    def _commit_all(self, it: ask.CommitAll) -> dict[Opened, ask.Outcome]:
        whole = [OpenTransaction(*each) for each in it.opened]
        # A decided transaction was open, so it is not empty.
        fates = lowlevel.end_transactions(self._client, whole, commit=True, are_written=True)
        return {Opened(*each): _outcome(error) for each, error in fates.items()}

    def _fence_all(self, it: ask.FenceAll) -> int:
        aborted = 0
        for error in self._client.abort_transactions(it.transactional_ids).values():
            if error is None:
                aborted += 1
            elif not isinstance(error, UnknownTransaction):
                _logger.warning("left to its timeout: %s", error)
        return aborted

    # -- the driver's transaction ----------------------------------------------------------

    def _append(self, it: ask.Append) -> int:
        table = pa.table(
            {
                "key": pa.array([it.key.encode()], pa.binary()),
                "value": pa.array([it.value], pa.binary()),
                "partition": pa.array([0], pa.int32()),
            }
        )
        # Ten thousand winners take a megabyte, and half of that when compressed.
        report = self._transactions[it.driver].append(
            table, it.topic, partition="partition", compression="gzip"
        )
        return report.partitions[0].first_offset

    def _send_offsets(self, it: ask.SendOffsets) -> None:
        places = {place: OffsetAndMetadata(*each) for place, each in it.offsets.items()}
        self._transactions[it.driver].send_offsets(places, it.group)

    def _commit_driver(self, it: ask.CommitDriver) -> None:
        committed = self._transactions.pop(it.driver)
        committed.commit()
        self._transactions[it.driver] = lowlevel.following(committed)


_PERFORMED: Final[dict[type, Callable[[Performer, Any], Any]]] = {
    ask.FetchAnchor: Performer._fetch_anchor,
    ask.ReadRecord: Performer._read_record,
    ask.FindRecord: Performer._find_record,
    ask.PrepareTopic: Performer._prepare_topic,
    ask.Describe: Performer._describe,
    ask.ListOpen: Performer._list_open,
    ask.InitTask: Performer._init_task,
    ask.Flush: Performer._flush,
    ask.AbortOwn: Performer._abort_own,
    ask.CommitAll: Performer._commit_all,
    ask.FenceAll: Performer._fence_all,
    ask.InitDriver: Performer._init_driver,
    ask.Append: Performer._append,
    ask.SendOffsets: Performer._send_offsets,
    ask.CommitDriver: Performer._commit_driver,
}


def _right(request: ask.Request, error: NotAuthorized) -> str:
    """All rights that the sink needs: brokers report only the first missing one."""
    if error.code is ErrorCode.transactional_id_authorization_failed:
        return f"Write on transactional ids that begin with {names.PREFIX!r}"
    is_group = error.code is ErrorCode.group_authorization_failed
    if isinstance(request, ask.SendOffsets) and not request.group.startswith(names.PREFIX):
        topics = ", ".join(repr(topic) for topic in sorted({each for each, _ in request.offsets}))
        return f"Read on group {request.group!r} and on the topics read: {topics}"
    if is_group:
        return f"Read on groups that begin with {names.PREFIX!r}"
    return "Read and Write on its decision topic"


def _outcome(error: ClientError | None) -> ask.Outcome:
    """The outcome of a commit."""
    if error is None:
        return "committed"
    if isinstance(error, UnknownTransaction):
        return "unknown"
    if isinstance(error, ProducerFenced):
        # Ended before its id was reused: only its committer ends a decided transaction, but that
        # is not proven here.
        outcomes: dict[bool | None, ask.Outcome] = {True: "unknown", False: "aborted"}
        return outcomes.get(error.was_ended, "unanswered")
    if isinstance(error, TransactionAborted):
        return "aborted"
    _logger.warning("not known to be committed yet: %s", error)
    return "unanswered"


def _last_with_key(batches: Iterable[pa.RecordBatch], key: str) -> bytes | None:
    requested, last = key.encode(), None
    for batch in batches:
        values = batch.column("value")
        for row, found in enumerate(batch.column("key").to_pylist()):
            if found == requested:
                last = values[row].as_py()
    return last
