"""The table of `stalls`: what the steady client saw beside each neighbour, and the goals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.stalls.rounds import CALM_GOAL, Row

_TITLE = (
    "ms of the steady client (p50 / p99 / max), of an act, and of the broker's CPU an act; medians"
)
_WIDTH = 170


def print_rows(rows: Sequence[Row | str]) -> None:
    """Goals: our max at most Kafka's, and our p99 at most twice what it was just before."""
    measured = [each for each in rows if isinstance(each, Row)]
    calm = next((each for each in measured if each.name == "calm"), None)
    table = Table(title=_TITLE, box=None)
    table.add_column("row")
    table.add_column("what the neighbour does", max_width=44)
    for name in ("Drumlin", "act / CPU", "Kafka", "act / CPU"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("max ≤ Kafka's")
    table.add_column(f"p99 ≤ {CALM_GOAL:g}x calm")
    for row in measured:
        table.add_row(
            row.name,
            row.about,
            _times(row, "ours"),
            _act(row, "ours"),
            _times(row, "theirs"),
            _act(row, "theirs"),
            _verdict(row.median("ours", "max") <= row.median("theirs", "max")),
            _against_calm(row, calm),
        )
    console = Console() if Console().is_terminal else Console(width=_WIDTH)
    console.print(table)
    if any(each.held_up for each in measured):
        console.print(
            "The longest turn of Drumlin's event loop by its own metrics, set-up included:"
        )
    for row in measured:
        if row.held_up:
            console.print(f"  {row.name}: {row.held_up}", markup=False, highlight=False)
    for each in rows:
        if isinstance(each, str):
            console.print(each, markup=False)


def _times(row: Row, side: str) -> str:
    return " / ".join(_short(row.median(side, each)) for each in ("p50", "p99", "max"))


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _act(row: Row, side: str) -> str:
    return " / ".join(_short(row.median(side, each)) for each in ("act", "cpu"))


def _against_calm(row: Row, calm: Row | None) -> str:
    ratio = row.against_calm(calm)
    return "" if ratio is None else f"{_verdict(ratio <= CALM_GOAL)} ({ratio:.1f}x)"


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"
