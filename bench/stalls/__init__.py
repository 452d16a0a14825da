"""What a client that does little notices of one that asks much: Drumlin beside Apache Kafka.

A steady client sends 100 small produces a second, and a neighbour does one hostile or heavy thing;
every thing is a row. `--rows` chooses among them, `--scale` sets their sizes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.brokers import brokers
from bench.harness import Comparison, Options
from bench.load import Load, batch_of
from bench.produce import once_led, produce_frame
from bench.stalls import hostile, logs, offsets, shares, wide
from bench.stalls.long_logs import caught_up, long_log
from bench.stalls.neighbour import Calm, Neighbour, Place
from bench.stalls.rounds import Row, measure
from bench.stalls.steady import SteadyClient
from bench.stalls.table import print_rows

_ROUNDS_MAX = 3
_WARMUP_REQUESTS = 20_000
_GROUPS_AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
#: Rows with the same pair of brokers run one after the other on it, in this order.
PAIRS: Mapping[str, Mapping[str, str]] = {
    "main": _GROUPS_AT_ONCE,
    "offsets": {},
    "offset_retention": {"offsets.retention.check.interval.ms": "500"},
    "shares": {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "1000",
    },
    "producers": {},
    "retention": {
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
    },
    "long_logs": {},
    "restart": {},
    "disk": {},
}
_ON_DISK = "disk"
NEIGHBOURS: tuple[type[Neighbour], ...] = (
    Calm,
    *hostile.ROWS,
    *wide.ROWS,
    *offsets.ROWS,
    *shares.ROWS,
    *logs.ROWS,
)
#: Rows without a steady client, and their pair.
_OTHERS = {"long_log": "long_logs", "caught_up": _ON_DISK}


def run(options: Options) -> list[Comparison]:
    """The rows that are asked for, or all; `calm` always, which others are judged by."""
    wanted = set(options.rows) or {each.name for each in NEIGHBOURS} | set(_OTHERS)
    unknown = wanted - {each.name for each in NEIGHBOURS} - set(_OTHERS)
    if unknown:
        known = ", ".join([*(each.name for each in NEIGHBOURS), *_OTHERS])
        raise ValueError(f"no such row: {', '.join(sorted(unknown))}; there are {known}")
    fewer = dataclasses.replace(
        options, rounds=min(options.rounds, _ROUNDS_MAX), warmup=min(options.warmup, 1)
    )
    rows: list[Row | str] = []
    others: list[Comparison] = []
    with SteadyClient() as steady:
        for pair in PAIRS:
            kinds = [
                each
                for each in NEIGHBOURS
                if each.pair == pair and (each.name in wanted or each is Calm)
            ]
            extra = [name for name, its in _OTHERS.items() if its == pair and name in wanted]
            if kinds or extra:
                with _places(pair, fewer) as places:
                    rows += [_row(kind, places, steady, fewer) for kind in kinds]
                    others += _other_rows(extra, places, fewer)
    print_rows(rows)
    return [each for row in rows if isinstance(row, Row) for each in row.comparisons()] + others


def _row(
    kind: type[Neighbour], places: Sequence[Place], steady: SteadyClient, options: Options
) -> Row | str:
    """What was measured, or why nothing was: the other rows still have something to say."""
    if not places:
        return f"{kind.name}: not measured, the temporary folder is in memory"
    try:
        return measure(kind, places, steady, options)
    except Exception as error:
        line = f"{kind.name}: {type(error).__name__}: {error}"[:500]
        print(line, file=sys.stderr, flush=True)
        return line


def _other_rows(
    names: Sequence[str], places: Sequence[Place], options: Options
) -> list[Comparison]:
    results: list[Comparison] = []
    for name in names if places else ():
        if name == "long_log":
            for place in places:
                results += long_log(place, options)
        else:
            results += caught_up(places, options)
    return results


@contextlib.contextmanager
def _places(pair: str, options: Options) -> Iterator[list[Place]]:
    """Both brokers, warm; nothing if a disk is needed and missing."""
    if pair == _ON_DISK:
        directory = Path(tempfile.mkdtemp(prefix="drumlin-bench-"))
        if _is_in_memory(directory):
            directory.rmdir()
            yield []
            return
    else:
        directory = options.directory / pair
        directory.mkdir()
    try:
        with brokers(dataclasses.replace(options, directory=directory), PAIRS[pair]) as both:
            places = [
                Place(each, directory / each.name.lower() / "data", options.scale) for each in both
            ]
            for each in places:
                _warm(each)
            yield places
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _is_in_memory(directory: Path) -> bool:
    """Whether the folder's file system has no disk, so that nothing there can be cold."""
    best, kind = "", ""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, its, *_ = line.split()
        if directory.resolve().is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, its
    return kind in ("tmpfs", "ramfs")


def _warm(place: Place) -> None:
    """What the steady client asks for, until it is compiled."""
    frame = produce_frame(place.broker, place.steady_topic, batch_of(300))
    answer = once_led(place.broker, frame)
    with contextlib.closing(Load(place.broker.dial, [frame], 4, len(answer))) as load:
        load.run(60, _WARMUP_REQUESTS)
