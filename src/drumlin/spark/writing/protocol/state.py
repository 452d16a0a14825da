"""A sink's last decision: the record in the decision topic, and the note with its offset.

The record is versioned JSON, with the sink's name as its key, so that any consumer can show it.
The note is the metadata of the group's committed offset: enough for a task to know that its
batch is new, without reading the record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.content import Content
from drumlin.spark.writing.protocol.sink_errors import StateLost
from drumlin.spark.writing.protocol.transactions import Opened, Winner

VERSION: Final = 1
#: How many refusals are remembered; the oldest are dropped first.
_REFUSED_MAX: Final = 64


class Anchor(NamedTuple):
    """The group's committed offset, which is that of the last record, and the note."""

    offset: int
    metadata: str


class Note(NamedTuple):
    """The last decision in short. `batch` is None before the first one.

    `has_more`: the record holds more than the note, apart from `ends`, which are informative.
    """

    query: str
    batch: int | None
    run: str
    is_done: bool
    has_more: bool
    looked_ms: int = -1
    content: Content | None = None

    def encode(self) -> str:
        return json.dumps(
            {
                "v": VERSION,
                "query": self.query,
                "batch": self.batch,
                "run": self.run,
                "done": self.is_done,
                "more": self.has_more,
                "looked": self.looked_ms,
                "content": self.content,
            }
        )

    @classmethod
    def decode(cls, sink: str, text: str) -> Note:
        """
        Raises:
            StateLost: the text is not a note of ours.
        """
        found = _parsed(sink, text, "the committed offset's metadata")
        try:
            return cls(
                found["query"],
                found["batch"],
                found["run"],
                found["done"],
                found["more"],
                found["looked"],
                _content(found),
            )
        except (KeyError, TypeError) as error:
            raise StateLost(f"sink {sink!r}: the metadata of its group lacks {error}") from error


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of a sink.

    Attributes:
        batch: the last batch that was decided; None before the first decision.
        is_done: all its winners are committed; they are forgotten then.
        refused: refusals, see refusals.py: of jobs aborted after their commit had been requested,
            of runs that an operator has aborted, of transactions that a failed job has left open.
            Each entry begins with its batch. It is dropped once that batch is done, which can then
            neither be decided nor repaired.
        repairs: how often winners of the batch were replaced.
        is_forgotten: an operator has declared the next batch, whichever it is, to be the first.
        looked_ms: when a driver last looked for transactions that no message names.
        content: the batch's content; None: an earlier version of drumlin has decided it.
        ends: its end offsets in its sources, for messages; "" if unknown.
    """

    query: str
    batch: int | None = None
    run: str = ""
    is_done: bool = True
    winners: tuple[Winner, ...] = ()
    refused: tuple[str, ...] = ()
    repairs: int = 0
    decided_ms: int = -1
    is_forgotten: bool = False
    looked_ms: int = -1
    content: Content | None = None
    ends: str = ""

    @property
    def note(self) -> Note:
        has_more = bool(self.winners or self.refused or self.is_forgotten)
        return Note(
            self.query, self.batch, self.run, self.is_done, has_more, self.looked_ms, self.content
        )

    def is_settled(self, batch: int) -> bool:
        """Whether all winners of a batch are committed."""
        return self.batch is not None and (
            self.batch > batch or (self.batch == batch and self.is_done)
        )

    def done(self) -> SinkState:
        """The state once all winners are committed."""
        kept = tuple(each for each in self.refused if _batch_of(each) >= self.next_batch)
        return replace(self, is_done=True, winners=(), refused=kept)

    @property
    def next_batch(self) -> int:
        """The lowest batch that can be decided next."""
        return 0 if self.batch is None else self.batch + 1

    def refusing(self, *tokens: str) -> SinkState:
        refused = tuple(dict.fromkeys((*self.refused, *tokens)))
        return replace(self, refused=refused[-_REFUSED_MAX:])

    def encode(self, sink: str) -> bytes:
        """The state as JSON; winners are arrays, as there may be ten thousand."""
        prefix = f"{names.PREFIX}{sink}."
        winners = [
            [each.part, each.partition, each.transactional_id.removeprefix(prefix), *each[3:]]
            for each in self.winners
        ]
        record = {
            "version": VERSION,
            "sink": sink,
            "query": self.query,
            "batch": self.batch,
            "run": self.run,
            "state": "done" if self.is_done else "decided",
            "decided_ms": self.decided_ms,
            "repairs": self.repairs,
            "forgotten": self.is_forgotten,
            "looked_ms": self.looked_ms,
            "content": self.content,
            "ends": self.ends,
            "refused": list(self.refused),
            "winners": winners,
        }
        return json.dumps(record, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, sink: str, value: bytes) -> SinkState:
        """
        Raises:
            StateLost: the value is not a record of this sink.
        """
        found = _parsed(sink, value, "the record")
        prefix = f"{names.PREFIX}{sink}."
        try:
            return cls(
                found["query"],
                found["batch"],
                found["run"],
                found["state"] == "done",
                tuple(
                    Winner(part, partition, prefix + rest, *more)
                    for part, partition, rest, *more in found["winners"]
                ),
                tuple(found["refused"]),
                found["repairs"],
                found["decided_ms"],
                found["forgotten"],
                found["looked_ms"],
                _content(found),
                found.get("ends", ""),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateLost(f"sink {sink!r}: its decision cannot be read: {error}") from error

    @classmethod
    def from_note(cls, note: Note) -> SinkState:
        """The whole state, if the note says that the record holds no more."""
        return cls(
            note.query,
            note.batch,
            note.run,
            note.is_done,
            looked_ms=note.looked_ms,
            content=note.content,
        )


class DriverEpoch(NamedTuple):
    """The result of a commit for the next one in its process: it has written `state` as `driver`.

    Until another process initialises the driver's transactional id, `state` is the last decision,
    and the next write as `driver` goes through.
    """

    driver: Opened
    state: SinkState


def _content(found: dict[str, Any]) -> Content | None:
    """The batch's content; earlier versions did not record it."""
    told = found.get("content")
    return None if told is None else Content(*told)


def _batch_of(refused: str) -> int:
    return int(refused.partition(":")[0])


def _parsed(sink: str, text: str | bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
        version = found.get("version", found.get("v"))
    except (ValueError, AttributeError) as error:
        raise StateLost(f"sink {sink!r}: {what} was not written by drumlin") from error
    if version != VERSION:
        raise StateLost(
            f"sink {sink!r}: {what} is of version {version}, this drumlin knows {VERSION}"
        )
    return found  # type: ignore[no-any-return]
