"""The results of a run of the benchmarks: a table, a JSON file, a chart."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.harness import Comparison

_OURS, _MISSED, _PLAIN = "#2a7f62", "#c8553d", "#8a8f98"


def print_table(results: Sequence[Comparison]) -> None:
    """Medians, ratios with their spread, and whether targets are reached."""
    table = Table(title="Medians; ratio of rounds as median (smallest to largest)", box=None)
    for name in ("benchmark", "scenario", "measure", "ours", "theirs", "ratio", "target"):
        right = name in ("ours", "theirs", "ratio", "target")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for each in results:
        low, high = each.spread
        table.add_row(
            each.bench,
            each.scenario,
            each.metric.unit,
            f"{each.our_median:,.4g}",
            f"{each.their_median:,.4g}",
            f"{each.ratio:.2f} ({low:.2f} to {high:.2f})",
            _verdict(each),
        )
    width = None if Console().is_terminal else 160
    Console(width=width).print(table)


def _verdict(result: Comparison) -> str:
    metric = result.metric
    if result.reached is None:
        return ""
    sign = "≥" if metric.higher_is_better else "≤"
    goal = f"{sign} {metric.target:g}x" if metric.limit is None else f"≤ {metric.limit:g}"
    return f"{goal} {'reached' if result.reached else 'MISSED'}"


def write_json(path: Path, results: Sequence[Comparison]) -> None:
    document = {"machine": describe_machine(), "results": [each.as_json() for each in results]}
    path.write_text(json.dumps(document, indent=2) + "\n")


def describe_machine() -> dict[str, Any]:
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write_chart(path: Path, results: Sequence[Comparison]) -> None:
    """Ratios with targets as bars from 1 ("as they are"), and their spread, on one page."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    shown = [each for each in results if each.metric.target is not None][::-1]
    if not shown:
        return
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.42 * len(shown)), layout="constrained")
    for row, each in enumerate(shown):
        low, high = each.spread
        color = _OURS if each.reached else _MISSED
        axes.barh(row, each.ratio - 1, left=1, color=color, height=0.6)
        axes.plot([low, high], [row, row], color="black", linewidth=1)
        axes.plot([each.metric.target or 0], [row], marker="|", color="black", markersize=16)
        axes.annotate(
            f"{each.ratio:.2f}x",
            (max(high, each.ratio, 1), row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    labels = [f"{each.bench}: {each.scenario} ({each.metric.unit})" for each in shown]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.2g}x")
    axes.axvline(1, color=_PLAIN, linewidth=1)
    axes.set_title("Drumlin beside its peers: ratio, spread of rounds, and target (|)", loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.margins(x=0.12)
    figure.savefig(path, dpi=140)


class Curve(NamedTuple):
    """One chart: a comparison for every place on its x axis."""

    label: str
    places: Sequence[float]
    results: Sequence[Comparison]


def write_curves(path: Path, title: str, curves: Sequence[Curve]) -> None:
    """Charts side by side: both sides' medians, with the spread of rounds in the background."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, charts = pyplot.subplots(
        1, len(curves), figsize=(5.5 * len(curves), 4), layout="constrained", squeeze=False
    )
    for axes, curve in zip(charts[0], curves, strict=True):
        first = curve.results[0]
        for name, color, side in (
            (first.our_name, _OURS, "ours"),
            (first.their_name, _PLAIN, "theirs"),
        ):
            rounds = [getattr(each, side) for each in curve.results]
            medians = [statistics.median(each) for each in rounds]
            axes.plot(curve.places, medians, marker="o", color=color, label=name)
            low, high = map(min, rounds), map(max, rounds)
            axes.fill_between(curve.places, list(low), list(high), color=color, alpha=0.2)
        axes.set_xlabel(curve.label)
        axes.set_ylabel(first.metric.unit)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(path, dpi=140)
