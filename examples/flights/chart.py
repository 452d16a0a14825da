"""A year of delays in one picture: a row for each airline, a column for each day."""

from __future__ import annotations

from pathlib import Path

import matplotlib.dates as mdates
import pandas as pd
from matplotlib.figure import Figure

_LATE_MINUTES = 90  # the darkest colour


def draw(delays: pd.DataFrame, path: Path) -> None:
    """Write the chart as a PNG; `delays` has a row for each carrier and day."""
    days = pd.date_range("2013-01-01", "2013-12-31")
    grid = delays.assign(day=pd.to_datetime(delays["day"])).pivot_table(
        index="name", columns="day", values="departure_delay"
    )
    busiest_first = delays.groupby("name")["flights"].sum().sort_values(ascending=False).index
    grid = grid.reindex(index=busiest_first, columns=days)

    figure = Figure(figsize=(13, 5), layout="constrained")
    axes = figure.subplots()
    first, last = mdates.date2num([days[0], days[-1]])
    image = axes.imshow(
        grid,
        aspect="auto",
        interpolation="none",
        cmap="magma_r",
        vmin=0,
        vmax=_LATE_MINUTES,
        extent=(first, last + 1, len(grid) - 0.5, -0.5),
    )
    axes.set_yticks(range(len(grid)), grid.index)
    axes.xaxis.set_major_locator(mdates.MonthLocator())
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%b"))
    axes.set_title("Mean departure delay from New York in 2013, by airline and day", loc="left")
    axes.spines[:].set_visible(False)
    figure.colorbar(image, label="minutes", extend="both", pad=0.01)
    figure.savefig(path, dpi=150)
