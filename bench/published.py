"""The figures of docs/benchmarks.md: the commands that they come from, and their tables.

Owns the list of commands, and the part of the document between its marks. Never holds a figure:
each comes from a run, and the document says of which day and which state of the code.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bench.harness import Comparison
from bench.report import describe_machine

_ROOT: Final = Path(__file__).parents[1]
DOCUMENT: Final = _ROOT / "docs" / "benchmarks.md"
_MARKED: Final = re.compile(r"(<!-- results -->\n).*?(<!-- end of results -->)", re.DOTALL)
_HEADER: Final = (
    "| scenario | measure | Drumlin | theirs | ratio | goal |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
)

#: What is published, as arguments of `./script/bench`.
PUBLISHED: Final = (
    (
        "real_clients --rounds 2 --warmup 1 --seconds 1 --rows "
        "produce_300,produce_64k,produce_1m,fetch_64k_v4,fetch_64k_v17,fetch_1m_v12,"
        "crowd_1,crowd_64,crowd_1000,partitions_produce_12,partitions_produce_100,"
        "partitions_fetch_100,partitions_session_100"
    ),
    (
        "real_clients --rounds 2 --warmup 1 --rows "
        "java_produce_1_none,java_produce_1_lz4,java_consume_none,java_consume_lz4,"
        "librdkafka,single_record"
    ),
    "transactions --rounds 2 --warmup 1",
    "offset_commits --rounds 2 --warmup 1",
    "groups --rounds 2 --warmup 1",
    "columns --rounds 2 --warmup 1",
    "spark --scale 0.25 --rounds 2 --warmup 1 --rows 100b,columns,1kb,map",
    "spark_state --scale 0.25 --rounds 2 --warmup 1 --rows max_by",
    "spark_write --scale 0.25 --rounds 2 --warmup 1 --rows 100b,1kb,batches_8",
    "compaction --scale 0.25 --rounds 2 --warmup 1",
    "offset_map",
    "partitions --rounds 1",
    "cluster --rounds 1 --warmup 1 --seconds 4",
    "stalls --rounds 1 --seconds 1 --scale 0.5",
)
#: Metrics that are for work on the code, by benchmark; and the one that says who was busy.
_LEFT_OUT: Final = {"stalls": {"p50", "calm_p99", "act", "cpu", "late"}}
_PERCENTILES: Final = ("p50", "p99")  # two of one unit
_GENERATOR_BOUND: Final = 85.0  # percent of a core: from here on a rate may be the generator's


class Runs:
    """What was measured so far, kept in a file, so that one command can be run again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of_command: dict[str, Mapping[str, Any]] = {}
        if path.exists():
            self._of_command = json.loads(path.read_text())

    def store(self, command: str, results: Sequence[Comparison]) -> None:
        self._of_command[command] = {
            "machine": describe_machine(),
            "commit": _commit(),
            "results": [each.as_json() | _medians(each) for each in results],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._of_command, indent=2) + "\n")

    def write_document(self, document: Path = DOCUMENT) -> None:
        """Replace the table.

        Raises:
            ValueError: a command was not run, or the document has no place for its table.
        """
        text = read_document(document)
        if missing := [each for each in PUBLISHED if each not in self._of_command]:
            raise ValueError(f"not measured yet: {'; '.join(missing)}")
        runs = [self._of_command[each] for each in PUBLISHED]
        parts = [_origin(runs)]
        for command, run in zip(PUBLISHED, runs, strict=True):
            parts += [f"\n`./script/bench {command}`\n\n", _HEADER, *_rows(run["results"])]
        document.write_text(_MARKED.sub(lambda mark: mark[1] + "".join(parts) + mark[2], text))


def read_document(document: Path = DOCUMENT) -> str:
    """
    Raises:
        ValueError: it has no place for the table.
    """
    text = document.read_text()
    if _MARKED.search(text) is None:
        raise ValueError(f"{document} lacks the marks between which the table stands")
    return text


def _commit() -> str:
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _medians(result: Comparison) -> dict[str, float]:
    return {"our_median": result.our_median, "their_median": result.their_median}


def _origin(runs: Sequence[Mapping[str, Any]]) -> str:
    """Where the figures come from: days, states of the code, the machine."""
    days = sorted({datetime.fromisoformat(each["machine"]["time"]).date() for each in runs})
    commits = list(dict.fromkeys(each["commit"] for each in runs))
    machine = runs[0]["machine"]
    return (
        f"Measured on {' and '.join(str(each) for each in days)} (UTC), commit "
        f"{', '.join(commits)}: {machine['cores']} cores of {machine['processor']}, "
        f"Linux {machine['kernel'].partition('-')[0]}, Python {machine['python']}.\n"
    )


def _rows(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    bound = {
        each["scenario"]
        for each in results
        if each["metric"]["name"] == "generator"
        and max(each["our_median"], each["their_median"]) >= _GENERATOR_BOUND
    }
    for each in results:
        name = each["metric"]["name"]
        if name == "generator" or name in _LEFT_OUT.get(each["bench"], ()):
            continue
        is_bound = name == "rate" and each["scenario"] in bound
        yield _row(each, f"{each['scenario']}{' (generator busy)' if is_bound else ''}")


def _row(result: Mapping[str, Any], scenario: str) -> str:
    low, high = map(_ratio, result["spread"])
    metric = result["metric"]
    ratio = _ratio(result["ratio"])
    if ratio and len(result["ours"]) > 1:
        ratio += f" ({low} to {high})"
    name, unit = metric["name"], metric["unit"]
    columns = (
        scenario,
        unit if name not in _PERCENTILES or name in unit else f"{unit} {name}",
        figure(result["our_median"]),
        figure(result["their_median"]),
        ratio,
        _goal(metric, reached=result["reached"]),
    )
    return f"| {' | '.join(columns)} |\n"


def _ratio(value: float) -> str:
    """Two digits that count; nothing where theirs is zero."""
    if math.isnan(value):
        return ""
    return f"{value:.2g}" if abs(value) < 100 else figure(value)


def _goal(metric: Mapping[str, Any], *, reached: bool | None) -> str:
    """The ratio to reach, or the most that ours may be; bold where it was missed."""
    if reached is None:
        return ""
    if metric["limit"] is not None:
        goal = f"ours ≤ {metric['limit']:g}"
    else:
        goal = f"{'≥' if metric['higher_is_better'] else '≤'} {metric['target']:.3g}"
    return goal if reached else f"**{goal}**"


def figure(value: float) -> str:
    """Three digits that count, and no exponent: 0.284, 41.3, 594,000, 3.11 M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M" if value < 1e9 else f"{value / 1e6:,.0f} M"
    if abs(value) >= 100:
        digits = len(f"{abs(value):.0f}") - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"
