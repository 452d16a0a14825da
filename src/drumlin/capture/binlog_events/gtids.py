"""Positions in the history of a MariaDB: the last GTID of every domain. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

_GTID = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,20})")


class Gtid(NamedTuple):
    """The identity of one transaction (or other group of events)."""

    domain: int
    server: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"


class GtidPosition(Mapping[int, Gtid]):
    """The last GTID of every replication domain. Immutable."""

    def __init__(self, found: Mapping[int, Gtid]) -> None:
        self._last = dict(found)

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Raises:
            ValueError: the text is not a list of GTIDs.
        """
        found = {}
        for each in text.split(",") if text else ():
            match = _GTID.fullmatch(each.strip())
            if match is None:
                raise ValueError(f"no GTID: {each[:60]!r}")
            gtid = Gtid(*map(int, match.groups()))
            found[gtid.domain] = gtid
        return cls(found)

    def after(self, gtid: Gtid) -> GtidPosition:
        """The position after this transaction."""
        return GtidPosition({**self._last, gtid.domain: gtid})

    def __getitem__(self, domain: int) -> Gtid:
        return self._last[domain]

    def __iter__(self) -> Iterator[int]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def __str__(self) -> str:
        return ",".join(str(self._last[each]) for each in sorted(self._last))
