"""The table of `turns`: the longest turn for each array of each API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from bench.turns import Result

GOAL_MS = 10.0
_WIDTH = 170
_FRAMES = 2


def print_results(results: Sequence[Result]) -> None:
    """Of each array the kind that took longest; the goal is 10 ms."""
    longest: dict[tuple[str, int, tuple[str, ...]], Result] = {}
    for each in results:
        key = each.case.api, each.case.version, each.case.path
        if key not in longest or longest[key].turn_ms < each.turn_ms:
            longest[key] = each
    table = Table(title=f"longest turns, ms of processor time; goal: {GOAL_MS:g}", box=None)
    for name in ("API", "version", "array", "elements", "answer", "place"):
        table.add_column(name, max_width=50)
    table.add_column("ms", justify="right")
    table.add_column("goal")
    for each in sorted(longest.values(), key=lambda each: -each.turn_ms):
        case = each.case
        table.add_row(
            case.api,
            str(case.version),
            ".".join(case.path),
            f"{case.count:,} {case.kind.value}",
            each.answer,
            " < ".join(each.place.split(" | ")[0].split(" < ")[:_FRAMES]),
            f"{each.turn_ms:.1f}",
            "met" if each.turn_ms <= GOAL_MS else "MISSED",
        )
    console = Console() if Console().is_terminal else Console(width=_WIDTH)
    console.print(table)
