"""The table of `turns`: the longest turn for each array of each API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.turns import Result
    from bench.turns.crowds import Done

_GOAL_MS: Final = 10.0
_FRAMES: Final = 2
#: Of a place: the folders that a file is in.
_FOLDERS: Final = re.compile(r"\((?:[^()]*/)")


def print_results(results: Sequence[Result]) -> None:
    """For each array the kind that took longest, a line each; first those that miss the goal."""
    longest: dict[tuple[str, int, tuple[str, ...]], Result] = {}
    for each in results:
        key = each.case.api, each.case.version, each.case.path
        if key not in longest or longest[key].turn_ms < each.turn_ms:
            longest[key] = each
    missed = sum(each.turn_ms > _GOAL_MS for each in longest.values())
    print(f"Longest turns, ms of processor time: {missed} of {len(longest)} above {_GOAL_MS:g}")
    rows = [_row(each) for each in sorted(longest.values(), key=lambda each: -each.turn_ms)]
    _print([("API", "version", "array", "elements", "ms", "place"), *rows])


def print_crowds(results: Sequence[Done]) -> None:
    """A line for each, in their order."""
    missed = sum(each.turn_ms > _GOAL_MS for each in results)
    print(f"Crowds: {missed} of {len(results)} above {_GOAL_MS:g}")
    rows = [(each.crowd, each.what, f"{each.turn_ms:5.1f}", _short(each.place)) for each in results]
    _print([("crowd", "what", "ms", "place"), *rows])


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{text:{width}}" for text, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def _row(result: Result) -> tuple[str, ...]:
    case = result.case
    array, elements = ".".join(case.path), f"{case.elements:,} {case.kind.value}"
    turn = f"{result.turn_ms:5.1f}"
    return case.api, str(case.version), array, elements, turn, _short(result.place)


def _short(place: str) -> str:
    frames = place.split(" | ")[0].split(" < ")[:_FRAMES]
    return _FOLDERS.sub("(", " < ".join(frames))
