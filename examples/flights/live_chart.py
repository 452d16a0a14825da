"""A chart that follows a topic: drawn of a table of it, and again whenever records have come."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import matplotlib
import pyarrow as pa
from arrivals import TOPIC, Arrival, Rows
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drumlin import Client, Table

_LATE_MINUTES = 30  # the darkest colour
_REFRESH_TIMEOUT_MS = 60_000
_COLORS = dict(zip(("cache", "chart", "Iceberg"), ("#1f77b4", "#d62728", "#2ca02c"), strict=True))


class LiveChart:
    """Draws in a thread of its own, as the table's must not wait for it."""

    def __init__(self, path: Path) -> None:
        #: What was measured: it comes into the picture when the block ends.
        self.arrivals: Sequence[Arrival] = ()
        self._path = path
        self._names: Mapping[str, str] = {}
        self._rows: Rows = {}
        self._changed, self._is_closed = threading.Event(), False
        self._threads = ThreadPoolExecutor(1)
        self._drawing: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        self._changed.set()
        self._threads.shutdown()
        if self.arrivals:
            draw(self._rows, self._names, self._path, self.arrivals)

    def follow(self, client: Client, airlines: pa.Table) -> None:
        """Draw the table, now and whenever it changes."""
        names = (airlines[name].to_pylist() for name in ("carrier", "name"))
        self._names = dict(zip(*names, strict=True))
        self._changed.set()
        table = client.table(TOPIC, decode="json", on_change=lambda _: self._changed.set())
        self._drawing = self._threads.submit(self._draw_changes, table)

    def flights(self) -> int:
        if self._drawing is not None and self._drawing.done():
            self._drawing.result()
        return sum(row["flights"] for row in self._rows.values())

    def rows(self) -> Rows:
        return self._rows

    def _draw_changes(self, table: Table) -> None:
        with table:
            while self._changed.wait() and not self._is_closed:
                self._changed.clear()
                # A transaction may show row by row; now all of it is there.
                table.refresh(_REFRESH_TIMEOUT_MS)
                rows = {row["tailnum"]: row for row in table.values()}
                draw(rows, self._names, self._path)
                self._rows = rows


def draw(
    rows: Rows, names: Mapping[str, str], path: Path, arrivals: Sequence[Arrival] = ()
) -> None:
    """Write the chart as a PNG: the airlines, and how soon changes were where."""
    figure = Figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_airlines(left, rows, names)
    _draw_arrivals(right, arrivals)
    figure.savefig(path, dpi=100)


def _draw_airlines(axes: Axes, rows: Rows, names: Mapping[str, str]) -> None:
    table = pa.Table.from_pylist(list(rows.values()))
    sums: list[tuple[str, Any]] = [(name, "sum") for name in ("flights", "departed", "minutes")]
    airlines = table.group_by("carrier").aggregate(sums).sort_by("flights_sum").to_pylist()
    colors = matplotlib.colormaps["magma_r"]
    for number, each in enumerate(airlines):
        mean = (each["minutes_sum"] or 0) / max(each["departed_sum"], 1)
        color = colors(0.1 + 0.8 * min(max(mean / _LATE_MINUTES, 0), 1))
        axes.barh(number, each["flights_sum"], color=color)
        text = f" {each['flights_sum']:,}, {mean:.1f} min"
        axes.text(each["flights_sum"], number, text, va="center", color="0.3")
    axes.set_yticks(range(len(airlines)), [names[each["carrier"]] for each in airlines])
    axes.set_xticks([])
    axes.margins(x=0.2)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("The table by airline: flights, and their mean delay", loc="left")


def _draw_arrivals(axes: Axes, arrivals: Sequence[Arrival]) -> None:
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("Milliseconds until a change is there", loc="left")
    axes.set_yticks(range(len(arrivals)), [f"{each.rows:,} rows" for each in arrivals])
    axes.set_ylim(len(arrivals) - 0.5, -0.5 if arrivals else 0)
    axes.set_xscale("log")
    for number, arrival in enumerate(arrivals):
        axes.axhline(number, color="0.9", zorder=0)
        for place, after_ms in arrival.after_ms.items():
            axes.plot(after_ms, number, "o", ms=9, mew=0, color=_COLORS[place])
            axes.text(
                after_ms, number - 0.12, f"{place}\n{after_ms:,.0f}", ha="center", color="0.3"
            )
    axes.margins(x=0.15)
