"""`drumlin compaction`: the state of cleaning, an immediate cleaning, and a simulated one.

A running broker does the work. Without one, `status` and `simulate` read the files themselves,
and change nothing; a cleaning needs a broker.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.cli.reach.broker_http import BrokerHttp, broker_at, broker_on
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import AsJson, examples
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.wire.error_codes import KafkaError

_STATUS_COLUMNS: Final = (
    "topic",
    "partition",
    "tail_bytes",
    "head_bytes",
    "dirty_ratio",
    "cleaned_timestamp",
    "took_ms",
    "freed_bytes",
    "state",
)
_RUN_COLUMNS: Final = (
    "topic",
    "partition",
    "before_bytes",
    "after_bytes",
    "freed_bytes",
    "removed_records",
    "took_ms",
    "remark",
)
_SIMULATE_COLUMNS: Final = (
    "topic",
    "partition",
    "before_bytes",
    "freed_bytes",
    "removed_records",
    "of_them",
    "remark",
)
#: Why a record is removed: key of the statistics -> word.
_REASONS: Final = {
    "superseded": "superseded",
    "expired_tombstones": "tombstones",
    "without_key": "without key",
    "aborted": "aborted",
    "markers_removed": "markers",
}
_NAMED_MAX: Final = 3
Row = dict[str, Any]

app = Group(help="Show, force or simulate the cleaning of compacted topics.")

Data = Annotated[
    Path | None,
    Option("--data", "-d", metavar="DIR", help="A broker's data directory, on this machine."),
]
DataDirectory = Annotated[
    Path,
    Option("--data", "-d", metavar="DIR", help="A broker's data directory, on this machine."),
]
Partition = Annotated[
    int | None, Option("--partition", "-p", min=0, help="Only this partition; default: all.")
]
OptionalTopic = Annotated[
    str | None, Argument("[TOPIC]", help="Only this topic; default: all compacted ones.")
]


@app.add(
    epilog=examples(
        "drumlin compaction status --data /var/lib/drumlin",
        "drumlin compaction status accounts --data /var/lib/drumlin",
        "drumlin compaction status --http 127.0.0.1:9404 --json",
    )
)
def status(
    topic: OptionalTopic = None,
    data: Data = None,
    http: Annotated[
        str | None,
        Option("--http", metavar="HOST:PORT", help="A broker's drumlin.metrics.listener."),
    ] = None,
    internal: Annotated[bool, Option("--internal", help="Show internal topics too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is clean (tail) and dirty (head), the last cleaning, and what cannot be cleaned.

    Bytes are those of whole segments. The active segment counts as neither: it can be cleaned once
    it is closed, by segment.bytes, segment.ms, max.compaction.lag.ms or `run --roll`.
    """
    if data is not None and http is None:
        broker = broker_on(data)
        report = status_of_files(data, topic) if broker is None else _ask_status(broker, topic)
    elif http is not None and data is None:
        report = _ask_status(broker_at(http), topic)
    else:
        raise click.BadParameter("no broker: give either --data or --http")
    if not (internal or topic):
        shown = [each for each in report["partitions"] if each["topic"] not in INTERNAL_TOPICS]
        report = {**report, "partitions": shown}
    if as_json:
        output.show_json(report)
        return
    rows = [status_row(each) for each in report["partitions"]]
    columns = _with_broker(_STATUS_COLUMNS, rows)
    output.show_rows(rows, columns, as_json=False, empty="no compacted partitions")
    for sentence in _about_active_segments(report["partitions"]):
        output.note(sentence)
    if report["is_enabled"] is None:
        output.note("no broker runs here: this is what the files say")
    elif not report["is_enabled"]:
        output.note("nothing is cleaned: log.cleaner.enable is false")


@app.add(
    epilog=examples(
        "drumlin compaction run accounts --data /var/lib/drumlin",
        "drumlin compaction run accounts --data /var/lib/drumlin --roll",
        "drumlin compaction run accounts --partition 3 --data /var/lib/drumlin --json",
    )
)
def run(
    topic: Annotated[str, Argument("TOPIC", help="A compacted topic.")],
    data: DataDirectory,
    partition: Partition = None,
    roll: Annotated[
        bool, Option("--roll", help="Close the active segment first, to clean that as well.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Have a running broker clean a topic now, however little of it is dirty, and wait for it.

    Uncleanable partitions are tried again.
    """
    broker = broker_on(data)
    if broker is None:
        raise output.Failure(f"no broker runs on {data}, and a cleaning needs one")

    def clean(**where: object) -> Any:
        return broker.post("/compaction/run", {**where, "roll": roll})

    results = _each(broker, topic, partition, clean, "cleaning")
    _show(results, [_run_row(each) for each in results], _RUN_COLUMNS, as_json)


@app.add(
    epilog=examples(
        "drumlin compaction simulate --data /var/lib/drumlin",
        "drumlin compaction simulate accounts --partition 3 --data /var/lib/drumlin --json",
    )
)
def simulate(
    data: DataDirectory,
    topic: OptionalTopic = None,
    partition: Partition = None,
    as_json: AsJson = False,
) -> None:
    """Show what a cleaning would free now, without doing it; this reads as much as a cleaning."""
    broker = broker_on(data)
    if broker is None:
        results = _simulate_on_files(data, topic, partition)
    else:

        def try_out(**where: object) -> Any:
            return broker.get("/compaction/simulate", timeout_s=None, **where)

        results = _each(broker, topic, partition, try_out, "simulating")
    _show(results, [_simulate_row(each) for each in results], _SIMULATE_COLUMNS, as_json)


# -- asking a broker ---------------------------------------------------------------------------


def _ask_status(broker: BrokerHttp, topic: str | None) -> Row:
    """Get the status; raises `output.Failure` if the topic does not exist or is not compacted."""
    report: Row = broker.get("/compaction", topic=topic)
    if topic is not None and not report["partitions"]:
        raise output.Failure(f"there is no compacted topic {topic!r}")
    return report


def _each(
    broker: BrokerHttp,
    topic: str | None,
    partition: int | None,
    act: Callable[..., Any],
    doing: str,
) -> list[Row]:
    """Call a broker for one partition after the other, to show progress."""
    report = broker.get("/compaction", topic=topic, partition=partition)
    # If there are several brokers, each answers for its own replica.
    rows = list({(row["topic"], row["partition"]): row for row in report["partitions"]}.values())
    if not rows and topic is not None:
        return list(act(topic=topic, partition=partition)["results"])  # the broker says why
    results: list[Row] = []
    with output.progress() as progress:
        task = progress.add_task(doing, total=sum(map(_size_bytes, rows)), done="")
        for row in rows:
            progress.update(task, done=f"{row['topic']}-{row['partition']}")
            results += act(topic=row["topic"], partition=row["partition"])["results"]
            progress.advance(task, _size_bytes(row))
    return results


def _size_bytes(row: Row) -> int:
    return int(row.get("tail_bytes", 0)) + int(row.get("head_bytes", 0))


# -- reading files -----------------------------------------------------------------------------


def status_of_files(path: Path, topic: str | None) -> Row:
    from drumlin.cli.reach.data_directory import DataDirectory as Files
    from drumlin.compaction.dirty.active_segment import active_segment
    from drumlin.compaction.dirty.outline import find_cleanable
    from drumlin.compaction.pool.pool import LogStatus
    from drumlin.compaction.pool.report import describe_error, describe_status

    files = Files(path)
    rows: list[Row] = []
    for name, partition, log in files.compacted_logs(topic):
        try:
            if isinstance(log, Exception):
                raise log
            found = find_cleanable(log, log.cleaning_view(), files.clock.wall_ms())
        except (KafkaError, OSError, ValueError) as error:
            rows.append(describe_error(name, partition, str(files.path), error))
            continue
        status = LogStatus(found, None, False, None)
        where = log.log_directory.path
        rows.append(describe_status(name, partition, where, status, active_segment(log)))
    if not rows and topic is not None:
        raise output.Failure(f"no compacted partitions of {topic} lie in {path}")
    return {"is_enabled": None, "totals": None, "partitions": rows}


def _simulate_on_files(path: Path, topic: str | None, partition: int | None) -> list[Row]:
    from drumlin.broker.hosting.log_cleaner import cleaner_settings
    from drumlin.cli.reach.data_directory import DataDirectory as Files
    from drumlin.compaction.failures import CleaningFailed, CleaningPostponed
    from drumlin.compaction.pool.report import describe_result
    from drumlin.compaction.pool.waits import reason_for_no_cleaning
    from drumlin.compaction.round.cleaner import Cleaner
    from drumlin.compaction.throttle import Throttle

    files = Files(path)
    results: list[Row] = []
    with output.progress() as progress:
        task = progress.add_task("simulating", total=None, done="")

        class Watched(Throttle):
            """A throttle without a limit, which updates the progress bar with every read."""

            def spend(self, size: int) -> None:
                progress.advance(task, size)

        never = threading.Event()
        throttle = Watched(float("inf"), files.clock, never)
        settings = cleaner_settings(files.config)
        cleaner = Cleaner(settings, throttle, lambda function: function(), files.clock, never)
        for name, index, log in files.compacted_logs(topic, partition):
            progress.update(task, done=f"{name}-{index}")
            try:
                if isinstance(log, Exception):
                    raise log
                done = cleaner.simulate(log)
                reason = (
                    reason_for_no_cleaning(log, files.clock.wall_ms()) if done is None else None
                )
                results.append(describe_result(name, index, done, reason))
            except (CleaningFailed, CleaningPostponed, KafkaError, OSError, ValueError) as error:
                results.append(describe_result(name, index, None, str(error), is_failed=True))
    if not results and topic is not None:
        raise output.Failure(f"no compacted partitions of {topic} lie in {path}")
    return results


# -- showing -----------------------------------------------------------------------------------


def _with_broker(columns: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns, with `broker` if a server of several brokers has answered."""
    topic, partition, *others = columns
    has_brokers = any("broker" in row for row in rows)
    return (topic, partition, *(["broker"] if has_brokers else []), *others)


def status_row(row: Row) -> Row:
    """A partition of a broker's report, as a table shows it."""
    last = row.get("last_cleaning") or {}
    return {
        **row,
        "cleaned_timestamp": last.get("ended_ms"),
        "took_ms": last.get("took_ms"),
        "freed_bytes": last.get("bytes_freed"),
        "state": _state(row),
    }


def _about_active_segments(rows: Sequence[Row]) -> Iterator[str]:
    """A note on partitions that have only an active segment: when it closes and can be cleaned."""
    by_closing: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("active_records") and not row["tail_bytes"] and not row["head_bytes"]:
            by_closing.setdefault(row["active_closes"], []).append(row)
    for closes, alike in by_closing.items():
        names = [f"{row['topic']}-{row['partition']}" for row in alike]
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        count = sum(row["active_records"] for row in alike)
        records = "the only record is" if count == 1 else f"all {count} records are"
        yield (
            f"{', '.join(names[:_NAMED_MAX])}{more}: {records} in the active segment, "
            f"which closes {closes}, or by `drumlin compaction run --roll`"
        )


def _state(row: Row) -> str:
    if "error" in row:
        return f"unreadable: {row['error']}"
    if row["uncleanable_because"]:
        return f"uncleanable: {row['uncleanable_because']}"
    if row["is_being_cleaned"]:
        return "being cleaned"
    if row["waits_because"]:
        return f"waits: {row['waits_because']}"
    return "overdue" if row["overdue_ms"] else ("dirty" if row["head_bytes"] else "clean")


def _show(
    results: Sequence[Row], rows: Sequence[Row], columns: Sequence[str], as_json: bool
) -> None:
    if as_json:
        output.show_json({"results": results})
    else:
        shown = _with_broker(columns, rows)
        output.show_rows(rows, shown, as_json=False, empty="no compacted partitions")
        if rows and not sys.stdout.isatty():  # there is no heading then
            output.note(_in_all(rows))
    failed = [f"{each['topic']}-{each['partition']}" for each in results if each["is_failed"]]
    if failed:
        raise output.Failure(f"failed: {', '.join(failed)}")


def _in_all(rows: Sequence[Row]) -> str:
    freed, removed = (
        sum(row[column] or 0 for row in rows) for column in ("freed_bytes", "removed_records")
    )
    partitions = "1 partition" if len(rows) == 1 else f"{len(rows)} partitions"
    return f"{partitions}: {removed} records removed, {freed} bytes freed"


def _run_row(result: Row) -> Row:
    done = result["cleaning"] or {}
    return {
        **result,
        "before_bytes": done.get("bytes_read"),
        "after_bytes": done.get("bytes_written"),
        "freed_bytes": done.get("bytes_freed"),
        "removed_records": done.get("records_removed"),
        "took_ms": done.get("took_ms"),
        "remark": result["reason"],
    }


def _simulate_row(result: Row) -> Row:
    would_do = result["cleaning"] or {}
    return {
        **result,
        "before_bytes": would_do.get("bytes_read"),
        "freed_bytes": would_do.get("bytes_freed"),
        "removed_records": would_do.get("records_removed"),
        "of_them": ", ".join(
            f"{would_do[key]} {word}" for key, word in _REASONS.items() if would_do.get(key)
        ),
        "remark": result["reason"],
    }
