"""Finds where two normalised transcripts differ, and says it so that it can be acted on.

Entries of an array are matched by what identifies them, as the protocol promises no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

#: What tells the entries of an array apart, the first of these that all of them have.
_IDENTITIES = (
    ("name", "topic_id"),
    ("topic", "topic_id"),
    ("topic_name", "topic_id"),
    ("topic_id",),
    ("name",),
    ("topic",),
    ("partition_index",),
    ("partition",),
    ("index",),
    ("api_key",),
    ("resource_type", "resource_name"),
    ("group_id",),
    ("key",),
    ("group_instance_id", "member_id"),
    ("member_id",),
    ("node_id",),
    ("broker_id",),
    ("batch_index",),
    ("log_dir",),
    ("user",),
    ("entity_type",),
    ("replica_id",),
    ("token_id",),
    ("feature",),
)
ABSENT = "(absent)"


class Step(NamedTuple):
    """One thing that a script did, and what it got."""

    api: str
    version: int
    answer: Any  # normalised
    about: str  # the script's note


class Difference(NamedTuple):
    """One field that is not the same."""

    step: int
    api: str
    version: int
    path: str
    kafka: Any
    drumlin: Any
    about: str = ""

    def __str__(self) -> str:
        about = self.about and f" ({self.about})"
        where = f"  step {self.step}{about}, {self.api} v{self.version}: "
        where += self.path or "the answer"
        return f"{where}\n      Kafka:   {self.kafka!r}\n      Drumlin: {self.drumlin!r}"


def differences(kafka: list[Step], drumlin: list[Step]) -> Iterator[Difference]:
    """Every field in which two transcripts of one script differ, in order."""
    for number, (theirs, ours) in enumerate(zip(kafka, drumlin, strict=False), start=1):
        for path, left, right in _walk("", theirs.answer, ours.answer):
            yield Difference(number, theirs.api, theirs.version, path, left, right, ours.about)
    if len(kafka) != len(drumlin):
        shorter = min(len(kafka), len(drumlin))
        longer = max(kafka, drumlin, key=len)
        yield Difference(
            shorter + 1,
            longer[shorter].api,
            longer[shorter].version,
            "number of steps",
            len(kafka),
            len(drumlin),
        )


def _walk(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            below = f"{path}.{key}" if path else key
            yield from _walk(below, left.get(key, ABSENT), right.get(key, ABSENT))
    elif isinstance(left, list) and isinstance(right, list):
        lefts, rights = _labelled(left), _labelled(right)
        for label in dict.fromkeys([*lefts, *rights]):
            below = f"{path}[{label}]"
            yield from _walk(below, lefts.get(label, ABSENT), rights.get(label, ABSENT))
    elif left != right or type(left) is not type(right):
        yield path, left, right


def _labelled(entries: list[Any]) -> dict[Any, Any]:
    """The entries by identity where they have one, else by their place."""
    if entries and all(isinstance(each, dict) for each in entries):
        for identity in _IDENTITIES:
            if all(field in each for each in entries for field in identity):
                labels = [_label(each, identity) for each in entries]
                return dict(zip(_numbered(labels), entries, strict=True))
    if entries and all(isinstance(each, str) for each in entries):
        entries = sorted(entries)
    return dict(enumerate(entries))


def _label(entry: dict[str, Any], identity: tuple[str, ...]) -> str:
    return " ".join(str(entry[field]) for field in identity)


def _numbered(labels: list[str]) -> list[str]:
    """Makes repeated labels differ: the protocol allows to ask for a thing twice."""
    seen: dict[str, int] = {}
    numbered = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        numbered.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return numbered
