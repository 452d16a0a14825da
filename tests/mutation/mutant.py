"""One fault that might slip into the source, as the lists in `mutants/` describe it.

A mutant is text for text. Its old text stands in its file exactly once, or it is refused: a list
that has lost touch with the source would report faults as noticed that were never made.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LISTS: Final = Path(__file__).parent / "mutants"
_FIELDS: Final = {"id", "file", "old", "new", "tests", "loses"}


class Inapplicable(Exception):
    """The mutant is not a change of exactly one place of its file."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """See the module.

    id: says what is wrong in it.
    file: below `src/drumlin`.
    tests: files or tests, of which one at least must fail; without what `_QUICK` leaves out.
    loses: what a user would lose, in a few words.
    """

    id: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    loses: str

    def path(self, root: Path) -> Path:
        return root / "src" / "drumlin" / self.file

    def mutated(self, root: Path) -> str:
        """The text of its file with the fault in it.

        Raises:
            Inapplicable: the old text stands there never or more than once, or nothing changes.
        """
        try:
            source = self.path(root).read_text("utf-8")
        except FileNotFoundError as error:
            raise Inapplicable(f"{self.id}: there is no {self.file}") from error
        count = source.count(self.old)
        if not self.old or count != 1:
            raise Inapplicable(f"{self.id}: its text stands {count} times in {self.file}")
        if self.new == self.old:
            raise Inapplicable(f"{self.id}: it changes nothing")
        return source.replace(self.old, self.new)


def listed(path: Path) -> list[Mutant]:
    """Those of one list, in its order.

    Raises:
        ValueError: an entry is not whole.
    """
    found: list[Mutant] = []
    for entry in tomllib.loads(path.read_text("utf-8"))["mutant"]:
        if entry.keys() != _FIELDS:
            raise ValueError(f"{path.name}: {entry.get('id')} has {sorted(entry)}")
        found.append(Mutant(**entry | {"tests": tuple(entry["tests"])}))
    return found


def all_mutants(lists: Path = LISTS) -> list[Mutant]:
    """All of them, in the order of the lists.

    Raises:
        ValueError: an entry is not whole, or two have the same id.
    """
    found = [each for path in sorted(lists.glob("*.toml")) for each in listed(path)]
    repeated = [each for each, count in Counter(each.id for each in found).items() if count > 1]
    if repeated:
        raise ValueError(f"several have the id {', '.join(repeated)}")
    return found
