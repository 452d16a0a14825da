"""Compaction in one picture: a row for each aircraft, a dot for each record, before and after."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from last_flights import Compaction, Snapshot, last_of_each
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

_EARLIER, _LAST = matplotlib.colormaps["magma_r"]([0.22, 0.72])


def draw(compaction: Compaction, path: Path) -> None:
    """Write the chart as a PNG."""
    before, after = compaction.before, compaction.after
    # Whose last flight was first comes first: then the last flights make one line.
    aircraft = last_of_each(before.records)["key"]
    figure = Figure(figsize=(13, 6), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, snapshot in ((left, before), (right, after)):
        _draw_records(axes, snapshot.records, aircraft)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("offset: the place of a record in the topic, older to newer")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda offset, _: f"{offset:,.0f}"))
    left.set_title(f"Before: every flight, {_amount(before)}", loc="left")
    right.set_title(f"After: the last of each aircraft, {_amount(after)}", loc="left")
    left.set_ylabel(f"{len(aircraft):,} aircraft, a row for each")
    left.set_yticks([])
    _explain_active_segment(right, compaction)
    figure.legend(*_legend(left), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)


def _draw_records(axes: Axes, records: pa.Table, aircraft: pa.ChunkedArray) -> None:
    rows = pc.index_in(records["key"], value_set=aircraft).to_numpy()
    offsets = records["offset"].to_numpy()
    is_last = np.isin(offsets, last_of_each(records)["offset"].to_numpy())
    few = len(offsets) < 20 * len(aircraft)
    for chosen, color, size in ((~is_last, _EARLIER, 2 if few else 1), (is_last, _LAST, 3)):
        axes.plot(offsets[chosen], rows[chosen], ".", color=color, ms=size, mew=0, rasterized=True)


def _legend(axes: Axes) -> tuple[list[Line2D], list[str]]:
    marks = [
        Line2D([], [], linestyle="none", marker="o", ms=7, mew=0, color=line.get_color())
        for line in axes.get_lines()
    ]
    return marks, ["a flight", "the last flight of an aircraft: it stays, and keeps its offset"]


def _explain_active_segment(axes: Axes, compaction: Compaction) -> None:
    start, end = compaction.end_offset, int(compaction.before.records["offset"][-1].as_py()) + 1
    axes.axvspan(start, end, color="0.9", zorder=0)
    axes.annotate(
        f"The newest {end - start:,} records\nare still in the segment that is\nbeing written to:"
        " they, and what\nthey replace, are cleaned later.",
        xy=(start, 0.72),
        xytext=(0.55, 0.72),
        xycoords=("data", "axes fraction"),
        textcoords="axes fraction",
        arrowprops={"arrowstyle": "->", "color": "0.4"},
        ha="right",
        va="center",
        color="0.4",
    )


def _amount(snapshot: Snapshot) -> str:
    return f"{snapshot.records.num_rows:,} records in {snapshot.size_bytes / 1e6:,.1f} MB"
