"""The history of a table in one picture: a bar for each month, its rows coloured by their month."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from history import AsOf
from matplotlib.figure import Figure


def draw(history: list[AsOf], path: Path) -> None:
    """Write the chart as a PNG."""
    colors = matplotlib.colormaps["magma_r"]
    figure = Figure(figsize=(13, 5), layout="constrained")
    axes = figure.subplots()
    for number, each in enumerate(history):
        bottom = 0
        # The oldest rows are at the bottom: there one sees how few of a month's rows stay.
        for month, aircraft in enumerate(each.aircraft[: number + 1]):
            color = colors(0.1 + 0.8 * month / len(history))
            axes.bar(number, aircraft, 0.85, bottom, color=color, edgecolor="white", linewidth=0.5)
            bottom += int(aircraft)
        axes.text(number, bottom, f"{bottom:,}", ha="center", va="bottom", color="0.3")
    axes.set_xticks(range(len(history)), [f"as of\n{each.at:%d %b}" for each in history])
    axes.tick_params(length=0)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    title = "Aircraft in the table 'last flight of each', as it was through 2013: a colour for each"
    axes.set_title(f"{title} month of the last flight", loc="left")
    figure.savefig(path, dpi=150)
