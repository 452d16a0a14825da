"""Documents in an OpenSearch index: the id of each is its record's key.

OpenSearch has no transactions over several documents, so a batch is written first, and then the
position, which is a document of the index `drumlin_positions`. A process that continues from a
position writes the documents after it again.

A request may take effect late: one of a process that was paused while another took over, or an
attempt without a response. If the document exists, it has a higher version, so the late write is
refused. But of a deleted document OpenSearch remembers the version only for a while
(`index.gc_deletes`). A late write can still be recognized: its term is over, and its batch is not
one that the term had completed when it ended. The ranges of such versions are kept with the
position, and documents with them are deleted (`_sweep`), once all records that were read before the
claim have been written again.

So after an attempt without a response, the process claims the partition again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from drumlin.client.errors import EqualKeys
from drumlin.serving.opensearch.connection import OpenSearchConnection, Unclear
from drumlin.serving.opensearch.documents import BATCH_MAX, OURS, Version, document_of, id_of
from drumlin.serving.opensearch.index import OpenSearchIndex, Stored, Write
from drumlin.serving.target import (
    Cell,
    Claim,
    Fenced,
    Position,
    TargetRefused,
    check_kept,
    check_owner,
)

#: The most rows, and about the most bytes, of a request.
_ROWS: Final = 2000
_BYTES: Final = 4 << 20
_SWEEP_S: Final = 30.0
#: The maximum number of ranges of late versions; those of the latest terms are kept.
_RANGES_MAX: Final = 64


@dataclass(slots=True)
class _Kept:
    """A claimed partition."""

    partition: int
    #: The term that was returned by `claim`.
    claimed: int
    stored: Stored
    #: The current term, which grows with each attempt without a response; its last complete batch.
    term: int
    batch: int = 0
    #: Whether a request of this term may take effect later.
    is_unclear: bool = False
    #: The time of the log end that was known at the last sweep.
    swept_at_end: str = ""
    swept_s: float = field(default_factory=time.monotonic)


class OpenSearchTarget:
    """One index. `kept` describes its topic, group and format: an index with others is refused."""

    def __init__(
        self,
        connection: OpenSearchConnection,
        name: str,
        topic: str,
        kept: str,
        *,
        only_looks: bool = False,
    ) -> None:
        """`only_looks`: for `positions` only; nothing is created.

        Raises:
            TargetRefused: the index cannot be used; the message says why.
            OSError: OpenSearch cannot be reached.
        """
        self._connection = connection
        self._index = OpenSearchIndex(connection, name)
        self._topic = topic
        self._kept = kept
        self._where = f"OpenSearch: index {name!r}"
        self._claimed: dict[int, _Kept] = {}
        #: The id that distinguishes this process's claims from those of others.
        self._owner = uuid.uuid4().hex
        if not only_looks:
            self._index.prepare()

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        found = {}
        uuid_now = self._index.uuid()
        for each in partitions:
            stored = self._index.stored(each)
            if stored is not None and stored.body["uuid"] == uuid_now:
                check_owner(self._where, stored.body["kept"], self._kept)
                position = _position(stored.body)
                if position is not None:
                    found[each] = position
        return found

    def claim(self, partition: int) -> Claim:
        uuid_now = self._index.uuid()

        def once() -> Stored | None:
            before = self._index.stored(partition)
            body = self._body_of_claim(before, uuid_now)
            return self._index.store(partition, body, before)

        stored = None
        while stored is None:  # another process was faster
            stored = self._connection.retried(once)
        term = stored.body["term"]
        position = _position(stored.body)
        kept = _Kept(partition, term, stored, term)
        kept.swept_at_end = position.at_end if position is not None else ""
        self._claimed[partition] = kept
        return Claim(term, position)

    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        kept = self._ours(partition, term)
        self._write(kept, changes.items())
        self._move(kept, {**position._asdict(), "is_loading": False})
        self._sweep(kept, position)

    def replace(self, partition: int, term: int) -> OpenSearchReplacement:
        kept = self._ours(partition, term)
        # Rows are replaced in place, so a process that takes over must load them all again.
        self._move(kept, {"is_loading": True})
        return OpenSearchReplacement(self, kept)

    def put_aside(self, kept: _Kept, rows: Iterable[tuple[Cell, Cell]]) -> None:
        """Write rows of a replacement."""
        self._write(self._ours(kept.partition, kept.claimed), rows)

    def end_replacement(self, kept: _Kept, first: int, position: Position) -> None:
        """Delete all documents that are older than the version `first`."""
        self._delete(self._ours(kept.partition, kept.claimed), [(0, first)])
        moved = {**position._asdict(), "is_loading": False, "floor": first}
        self._move(kept, {**moved, "late": _merged(kept.stored.body["late"], first)})

    def close(self) -> None:
        """Do nothing: the store closes the connection, which its indexes share."""

    # -- terms -----------------------------------------------------------------------------

    def next_version(self, kept: _Kept) -> int:
        """The version of the next batch, without a partition."""
        return int(Version(kept.term, kept.batch + 1, 0))

    def _body_of_claim(self, before: Stored | None, uuid_now: str) -> dict[str, Any]:
        """The position document of a new term, with the ranges of versions of late writes."""
        nothing: dict[str, Any] = {
            "kept": self._kept,
            "term": 0,
            "batch": 0,
            "late": [],
            "floor": 0,
        }
        body = nothing if before is None else before.body
        check_kept(self._where, body["kept"], self._kept)
        if body.get("uuid") != uuid_now:  # the documents were lost with the index
            body = {**body, "uuid": uuid_now, "offset": None}
        return self._in_next_term(body, body["batch"])

    def _in_next_term(self, body: dict[str, Any], batch: int) -> dict[str, Any]:
        term = body["term"] + 1
        late = body["late"]
        if term > 1:
            begin, end = Version(body["term"], batch + 1, 0), Version(term, 0, 0)
            late = _merged([*late, [int(begin), int(end)]], body["floor"])
        return {**body, "term": term, "batch": 0, "owner": self._owner, "late": late}

    def _renew(self, kept: _Kept) -> None:
        """Claim the partition again, as the last request may take effect at any time.

        Raises:
            Fenced: another process has claimed it meanwhile.
        """

        def once() -> Stored | None:
            before = self._index.stored(kept.partition)
            if before is None or before.body["owner"] != self._owner:
                self._lose(kept.partition)
            # Of the current term all batches up to this one are complete, stored or not.
            batch = kept.batch if before.body["term"] == kept.term else 0
            return self._index.store(kept.partition, self._in_next_term(before.body, batch), before)

        stored = None
        while stored is None:
            stored = self._connection.retried(once)
        kept.stored, kept.term, kept.batch = stored, stored.body["term"], 0
        kept.is_unclear = False

    def _ours(self, partition: int, term: int) -> _Kept:
        kept = self._claimed.get(partition)
        if kept is None or kept.claimed != term:
            self._lose(partition)
        return kept

    def _lose(self, partition: int) -> NoReturn:
        self._claimed.pop(partition, None)
        where = f"index {self._index.name!r}"
        raise Fenced(f"OpenSearch: {where}: another process has taken partition {partition}")

    # -- writes ----------------------------------------------------------------------------

    def _move(self, kept: _Kept, changes: dict[str, Any]) -> None:
        def once() -> None:
            body = {**kept.stored.body, **changes, "batch": kept.batch}
            stored = self._index.store(kept.partition, body, kept.stored)
            if stored is None:
                self._lose(kept.partition)
            kept.stored = stored

        self._clearly(kept, once)

    def _write(self, kept: _Kept, rows: Iterable[tuple[Cell, Cell | None]]) -> None:
        for some in _in_requests(rows):
            self._clearly(kept, lambda some=some: self._write_once(kept, some))  # type: ignore[misc]

    def _clearly(self, kept: _Kept, work: Callable[[], None]) -> None:
        """Do `work`, and repeat it in a new term after a request without a response.

        Raises:
            Fenced: another process has claimed the partition.
        """

        def attempt() -> None:
            if kept.is_unclear or kept.batch >= BATCH_MAX:
                self._renew(kept)
            try:
                work()
            except Unclear:
                kept.is_unclear = True
                raise

        self._connection.retried(attempt)

    def _write_once(self, kept: _Kept, rows: Mapping[str, tuple[Cell, Cell | None]]) -> None:
        version = int(Version(kept.term, kept.batch + 1, kept.partition))
        existing = self._index.versions(rows)
        writes = []
        for name, (key, value) in rows.items():
            owner = Version.parse(existing[name]) if name in existing else None
            if value is None:
                if owner is not None and owner.term and owner.partition == kept.partition:
                    writes.append(Write(name, version, None))
                continue
            self._check_ours(key, owner, kept.partition)
            document = document_of(key, value, kept.partition, version)
            writes.append(Write(name, version, document))
        refused = self._index.write(writes) if writes else []
        if refused:
            # Another process has claimed the partition, or another partition, in a higher term,
            # has deleted the document.
            newer = self._index.versions([each.id for each in refused])
            for name, number in newer.items():
                self._check_ours(rows[name][0], Version.parse(number), kept.partition)
            raise Unclear(f"index {self._index.name!r}: {refused[0].id[:100]!r} is newer")
        kept.batch += 1

    def _check_ours(self, key: Cell, owner: Version | None, partition: int) -> None:
        """Check that a key's document, if there is one, belongs to this partition."""
        if owner is None or (owner.term and owner.partition == partition):
            return
        if not owner.term:
            raise TargetRefused(
                f"OpenSearch: index {self._index.name!r} has a document of another program for "
                f"the key {key[:100]!r}"
            )
        raise EqualKeys(self._topic, key.encode() if isinstance(key, str) else key)

    # -- documents that are too old --------------------------------------------------------

    def _sweep(self, kept: _Kept, position: Position) -> None:
        """Delete late writes, from time to time."""
        body, now_s = kept.stored.body, time.monotonic()
        ranges = [*body["late"], *([(0, body["floor"])] if body["floor"] else [])]
        # Before the log's end is reached, rows of an unfinished batch may still be read again.
        is_due = position.at_end != kept.swept_at_end and now_s - kept.swept_s >= _SWEEP_S
        if is_due and ranges:
            self._delete(kept, ranges)
            kept.swept_at_end, kept.swept_s = position.at_end, now_s

    def _delete(self, kept: _Kept, ranges: Iterable[tuple[int, int]]) -> None:
        """Delete the partition's documents with versions in these ranges."""
        between = [{"range": {f"{OURS}.version": {"gte": a, "lt": b}}} for a, b in ranges]
        ours = {"term": {f"{OURS}.partition": kept.partition}}
        query = {"bool": {"filter": [ours], "should": between, "minimum_should_match": 1}}
        found = [""]

        def once() -> None:
            found[:] = self._index.find(query, _ROWS)
            version = int(Version(kept.term, kept.batch + 1, kept.partition))
            if found:
                self._index.write([Write(each, version, None) for each in found])
                kept.batch += 1

        while found:
            self._clearly(kept, once)


class OpenSearchReplacement:
    """A replacement in place, as its values are newer than the existing ones."""

    def __init__(self, target: OpenSearchTarget, kept: _Kept) -> None:
        self._target = target
        self._kept = kept
        self._first = target.next_version(kept)

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        self._target.put_aside(self._kept, rows)

    def commit(self, position: Position) -> None:
        self._target.end_replacement(self._kept, self._first, position)


def _in_requests(
    rows: Iterable[tuple[Cell, Cell | None]],
) -> Iterator[dict[str, tuple[Cell, Cell | None]]]:
    """The rows by their ids, in groups that fit into a request."""
    found: dict[str, tuple[Cell, Cell | None]] = {}
    size = 0
    for key, value in rows:
        found[id_of(key)] = key, value
        size += len(key) + len(value or b"")
        if len(found) >= _ROWS or size >= _BYTES:
            yield found
            found, size = {}, 0
    if found:
        yield found


def _position(body: Mapping[str, Any]) -> Position | None:
    """The position in a position document; None if the rows match no position."""
    if body.get("offset") is None or body.get("is_loading"):
        return None
    return Position(*(body[name] for name in Position._fields))


def _merged(ranges: Iterable[list[int]], floor: int) -> list[list[int]]:
    """The latest ranges, adjacent ones merged. Versions below `floor` are known to be too old."""
    found: list[list[int]] = []
    for begin, end in ranges:
        if end <= floor:
            continue
        # Batches count from 1.
        if found and begin <= found[-1][1] + int(Version(0, 1, 0)):
            found[-1][1] = end
        else:
            found.append([begin, end])
    return found[-_RANGES_MAX:]
