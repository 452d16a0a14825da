"""A model of a Kafka cluster, as far as the sink's protocol can tell it from a real one.

Each request is done at once or says `LATER`, as a broker that answers with an error to be retried.
Ends of transactions take two steps: the coordinator's decision, and the markers. It also watches:
no transaction that a decision names may be aborted but by its time-out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from drumlin.spark.writing.protocol import requests as ask
from drumlin.spark.writing.protocol.sink_errors import Fenced, RequestFailed
from drumlin.spark.writing.protocol.state import Anchor, SinkState
from drumlin.spark.writing.protocol.transactions import Opened

LATER: Final = object()
#: As in Kafka by default.
TASK_TIMEOUT_S: Final = 900.0
DRIVER_TIMEOUT_S: Final = 60.0
EXPIRATION_S: Final = 7 * 86_400.0


class WriteRows(NamedTuple):
    """-> None: rows of a task in its transaction; what a task does besides the protocol."""

    opened: Opened
    rows: tuple[int, ...]


class ProtocolBroken(AssertionError):
    """The protocol has done what it must never do."""


@dataclass
class Transaction:
    """What a coordinator knows of one transactional id, and what its open transaction holds."""

    producer_id: int
    epoch: int
    timeout_s: float
    state: str = "Empty"
    begun: float = 0.0  # InitProducerId
    started: float = 0.0
    updated: float = 0.0
    rows: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)  # offsets in the decision topic
    offsets: dict[tuple[str, str], Any] = field(default_factory=dict)  # by group and topic

    @property
    def is_prepared(self) -> bool:
        return self.state.startswith("Prepare")

    @property
    def is_at_rest(self) -> bool:
        return self.state != "Ongoing" and not self.is_prepared


@dataclass
class Record:
    key: str
    value: bytes | None
    state: str = "open"  # "committed", "aborted"


class Cluster:
    """One cluster with one sink's target topics, all partitions taken together."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ids: dict[str, Transaction] = {}
        self.visible: Counter[int] = Counter()
        self.log: dict[int, Record] = {}
        self.end_offset = 0
        self.groups: dict[tuple[str, str], tuple[float, Any]] = {}
        self.decided: set[Opened] = set()
        self.batches: dict[int | None, set[Opened]] = {}  # who won, as first decided
        self.undone: set[Opened] = set()
        self.counts: Counter[str] = Counter()
        self._producer_ids = 0
        self._aborted: dict[Opened, float] = {}
        self._not_loaded: list[tuple[tuple[str, str], Any]] = []

    # -- time ------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """What is open for too long is aborted; what rests for a week is forgotten."""
        self.now += seconds
        for name, each in list(self.ids.items()):
            if each.state == "Ongoing" and each.started + each.timeout_s < self.now:
                self.time_out(name)
            elif each.is_at_rest and each.updated + EXPIRATION_S < self.now:
                del self.ids[name]
                self.counts["expired"] += 1
        for key, (committed, _) in list(self.groups.items()):
            if committed + EXPIRATION_S < self.now:
                del self.groups[key]

    def time_out(self, name: str) -> None:
        """Abort an open transaction, as the broker does by itself."""
        each = self.ids[name]
        who = Opened(name, each.producer_id, each.epoch)
        self.counts["timed out"] += 1
        self.counts["decided winner timed out"] += who in self.decided
        self._abort(who, each, is_raised=True)

    def write_markers(self, name: str) -> None:
        """The second step of an end."""
        each = self.ids[name]
        if each.state == "PrepareCommit":
            self.visible.update(each.rows)
            for offset in each.records:
                self.log[offset].state = "committed"
                self._note_decision(self.log[offset], each.begun)
            self._not_loaded += each.offsets.items()
            each.state = "CompleteCommit"
        elif each.state == "PrepareAbort":
            for offset in each.records:
                self.log[offset].state = "aborted"
            each.state = "CompleteAbort"
        if each.records:
            self.end_offset += 1  # the marker
        each.rows, each.records, each.offsets = [], [], {}
        each.updated = self.now

    def load_offsets(self) -> None:
        """A group's coordinator takes over what was committed some time after the marker."""
        for key, value in self._not_loaded:
            self.groups[key] = self.now, value
        self._not_loaded = []

    def prepared(self) -> list[str]:
        return [name for name, each in self.ids.items() if each.is_prepared]

    def settle(self) -> None:
        for name in self.prepared():
            self.write_markers(name)
        self.load_offsets()

    def clock_ms(self) -> int:
        """The wall clock, of brokers and all others."""
        return int(self.now * 1000)

    def delete_topic(self) -> None:
        """The decision topic is deleted, and the offsets in it too."""
        self.log.clear()
        self.end_offset = 0
        self.delete_group()

    def delete_group(self) -> None:
        """The sinks' groups are deleted: what was decided last is only in the topic then."""
        for key in [each for each in self.groups if each[0].startswith("drumlin.")]:
            del self.groups[key]

    def compact(self) -> None:
        """What a later record of the same key replaces is gone, and so is what was aborted."""
        last = {e.key: offset for offset, e in sorted(self.log.items()) if e.state == "committed"}
        for offset, each in list(self.log.items()):
            if each.state == "aborted" or (each.state == "committed" and last[each.key] != offset):
                del self.log[offset]

    def _note_decision(self, record: Record, since: float) -> None:
        """Watch the rules: who decides has looked at the winners since it has fenced."""
        if record.value is None:
            self.undone = set()
            return
        state = SinkState.decode(record.key, record.value)
        winners = {each.opened for each in state.winners}
        new = winners - self.decided
        if over := [each for each in new if self._aborted.get(each, since) < since]:
            raise ProtocolBroken(f"{over} are decided and were over")
        is_first = bool(state.winners) and not state.repairs
        if is_first and self.batches.setdefault(state.batch, winners) != winners:
            raise ProtocolBroken(f"batch {state.batch} was decided twice")
        self.decided |= winners
        self.undone = winners  # none, as soon as it is marked done

    # -- requests --------------------------------------------------------------------------

    def perform(self, request: Any) -> Any:
        """The answer, or `LATER`.

        Raises:
            RequestFailed: refused.
        """
        return getattr(self, "_" + type(request).__name__)(request)

    def _PrepareTopic(self, _: ask.PrepareTopic) -> None:  # noqa: N802
        return None

    def _FetchAnchor(self, it: ask.FetchAnchor) -> Any:  # noqa: N802
        key = (it.group, it.topic)
        if it.is_stable and any(key in each.offsets for each in self.ids.values()):
            return LATER
        if it.is_stable and any(key == each for each, _ in self._not_loaded):
            return LATER
        found = self.groups.get(key)
        return None if found is None else Anchor(*found[1])

    def _ReadRecord(self, it: ask.ReadRecord) -> bytes | None:  # noqa: N802
        found = self.log.get(it.offset)
        return found.value if found is not None and found.key == it.key else None

    def _FindRecord(self, it: ask.FindRecord) -> Any:  # noqa: N802
        if any(each.state == "open" for each in self.log.values()):
            return LATER  # the last stable offset is not at the end
        found = [e.value for _, e in sorted(self.log.items()) if e.key == it.key]
        kept = [e for _, e in sorted(self.log.items()) if e.key == it.key and e.state != "aborted"]
        return kept[-1].value if found and kept else None

    def _Describe(self, it: ask.Describe) -> dict[str, ask.Description]:  # noqa: N802
        known = {name: self.ids[name] for name in it.transactional_ids if name in self.ids}
        return {
            name: ask.Description(
                each.state,
                each.producer_id,
                each.epoch,
                round(each.started * 1000),
                round(each.timeout_s * 1000),
            )
            for name, each in known.items()
        }

    def _ListOpen(self, it: ask.ListOpen) -> tuple[str, ...]:  # noqa: N802
        return tuple(
            name
            for name, each in self.ids.items()
            if name.startswith(it.prefix) and each.state == "Ongoing"
        )

    def _InitTask(self, it: ask.InitTask) -> Any:  # noqa: N802
        return self._init(it.transactional_id, TASK_TIMEOUT_S)

    def _InitDriver(self, it: ask.InitDriver) -> Any:  # noqa: N802
        return self._init(it.transactional_id, DRIVER_TIMEOUT_S)

    def _init(self, name: str, timeout_s: float) -> Any:
        each = self.ids.get(name)
        if each is None:
            self._producer_ids += 1
            each = self.ids[name] = Transaction(self._producer_ids, -1, timeout_s)
        who = Opened(name, each.producer_id, each.epoch)
        if who in self.undone:
            raise ProtocolBroken(f"{who} has won and is not done, and its id is taken")
        if each.is_prepared:
            return LATER
        if each.state == "Ongoing":
            if who in self.decided:
                raise ProtocolBroken(f"{who} was decided, and is aborted by InitProducerId")
            self._abort(who, each, is_raised=True)
            return LATER
        each.epoch += 1
        each.state, each.timeout_s = "Empty", timeout_s
        each.begun = each.updated = self.now
        return Opened(name, each.producer_id, each.epoch)

    def _FenceAll(self, it: ask.FenceAll) -> Any:  # noqa: N802
        answers = [
            self._init(name, TASK_TIMEOUT_S) for name in it.transactional_ids if name in self.ids
        ]
        return LATER if LATER in answers else len(answers)

    def _WriteRows(self, it: WriteRows) -> Any:  # noqa: N802
        each = self._begun(it.opened)
        if each is not LATER:
            each.rows += it.rows
        return None if each is not LATER else LATER

    def _Flush(self, it: ask.Flush) -> None:  # noqa: N802
        return None

    def _AbortOwn(self, it: ask.AbortOwn) -> Any:  # noqa: N802
        outcome = self._end(it.opened, is_commit=False)
        return outcome if outcome is LATER else None

    def _CommitAll(self, it: ask.CommitAll) -> Any:  # noqa: N802
        outcomes: dict[Opened, Any] = {}
        for each in it.opened:  # one after another, so that one may be left out
            outcomes[each] = self._end(each, is_commit=True)
            if outcomes[each] is LATER:
                return LATER
        return outcomes

    def _Append(self, it: ask.Append) -> Any:  # noqa: N802
        each = self._begun(it.driver)
        if each is LATER:
            return LATER
        offset = self.end_offset
        self.end_offset += 1
        self.log[offset] = Record(it.key, it.value)
        each.records.append(offset)
        return offset

    def _SendOffsets(self, it: ask.SendOffsets) -> Any:  # noqa: N802
        each = self._begun(it.driver)
        if each is LATER:
            return LATER
        for (topic, _), value in it.offsets.items():
            each.offsets[it.group, topic] = value
        return None

    def _CommitDriver(self, it: ask.CommitDriver) -> Any:  # noqa: N802
        outcome = self._end(it.driver, is_commit=True)
        if outcome in ("aborted", "unknown"):
            raise Fenced("the driver was fenced, or its transaction timed out")
        return outcome if outcome is LATER else None

    # -- transactions ----------------------------------------------------------------------

    def _begun(self, who: Opened) -> Any:
        """The transaction of a producer, which begins with what comes first."""
        each = self.ids.get(who.transactional_id)
        if each is None or each.producer_id != who.producer_id:
            raise RequestFailed("INVALID_PRODUCER_ID_MAPPING")
        if each.epoch != who.epoch:
            raise Fenced("PRODUCER_FENCED")
        if each.is_prepared:
            return LATER
        if each.state != "Ongoing":
            each.state, each.started = "Ongoing", self.now
        each.updated = self.now
        return each

    def _end(self, who: Opened, *, is_commit: bool) -> Any:
        """EndTxn of the classic generation, as the client explains its refusals."""
        each = self.ids.get(who.transactional_id)
        if each is None or each.producer_id != who.producer_id:
            return "unknown"
        if each.epoch != who.epoch:
            is_next = each.epoch == who.epoch + 1
            if is_next and each.state == "Ongoing":
                return "unanswered"
            return "unknown" if is_next and each.state[-5:] != "Abort" else "aborted"
        if each.is_prepared:
            is_same = (each.state == "PrepareCommit") == is_commit
            return LATER if is_same else ("committed" if each.state[7:] == "Commit" else "aborted")
        if each.state == "Empty":
            return "unknown"
        if each.state != "Ongoing":
            return "committed" if each.state == "CompleteCommit" else "aborted"
        if not is_commit:
            if who in self.decided:
                raise ProtocolBroken(f"{who} was decided, and its task aborts it")
            self._abort(who, each, is_raised=False)
            return "aborted"
        each.state = "PrepareCommit"
        return LATER  # until its markers are written, as EndTxn is asked for again

    def _abort(self, who: Opened, each: Transaction, *, is_raised: bool) -> None:
        self._aborted[who] = self.now
        each.state = "PrepareAbort"
        each.epoch += is_raised
        each.updated = self.now
