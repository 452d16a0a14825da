"""`drumlin dump-log`: finds the files, prints what their readers yield, and counts problems."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from drumlin.cli.dump.findings import Item, Problem, Reader
from drumlin.cli.dump.indexes import read_offset_index, read_time_index
from drumlin.cli.dump.segments import read_segment
from drumlin.cli.dump.state_files import (
    EPOCHS_FILE,
    read_aborted_transactions,
    read_leader_epochs,
    read_producer_snapshot,
)
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.options import AsJson, examples

if TYPE_CHECKING:
    from rich.progress import TaskID

_READERS: Final[dict[str, Reader]] = {
    ".log": read_segment,
    ".index": read_offset_index,
    ".timeindex": read_time_index,
    ".txnindex": read_aborted_transactions,
    ".snapshot": read_producer_snapshot,
}
# Column and width on a terminal; other fields are only in the JSON output.
_LAYOUTS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "batch": (
        ("position", 10),
        ("size_bytes", 10),
        ("base_offset", 12),
        ("last_offset", 12),
        ("records", 8),
        ("max_timestamp", 24),
        ("compression", 11),
        ("leader_epoch", 12),
        ("producer_id", 11),
        ("base_sequence", 13),
        ("flags", 0),
    ),
    "record": (("offset", 12), ("timestamp", 24), ("control", 7), ("key", 0), ("value", 0)),
    "index": (("offset", 12), ("log_position", 12)),
    "time-index": (("timestamp", 24), ("offset", 12)),
    "aborted": (
        ("producer_id", 12),
        ("first_offset", 12),
        ("last_offset", 12),
        ("last_stable_offset", 18),
    ),
    "producer": (
        ("producer_id", 12),
        ("producer_epoch", 14),
        ("last_sequence", 13),
        ("last_offset", 12),
        ("timestamp", 24),
        ("transaction_first_offset", 24),
    ),
    "leader-epoch": (("epoch", 6), ("start_offset", 12)),
}

EXAMPLES: Final = examples(
    "drumlin dump-log data/flights-0/00000000000000000000.log",
    "drumlin dump-log --deep data/flights-0/00000000000000000000.log",
    "drumlin dump-log --verify data",
    "drumlin dump-log --json data/flights-0 | jq 'select(.kind == \"batch\")'",
)


def dump_log(
    paths: Annotated[
        list[Path],
        Argument("PATH…", help="Files, or directories to search for them."),
    ],
    deep: Annotated[
        bool,
        Option("--deep", help="Show the records too, decoded for internal topics."),
    ] = False,
    verify: Annotated[
        bool,
        Option("--verify", help="Check everything, records too; show only files with problems."),
    ] = False,
    verbose: Annotated[
        bool, Option("--verbose", "-v", help="With --verify: show the other files too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print and verify segment, index, snapshot and leader epoch files.

    Every problem is reported on standard error with its file and position; the exit code is 1 then.
    """
    files = list(_find(paths))
    problems = _verify(files, as_json, verbose) if verify else _dump(files, deep, as_json)
    if not as_json:
        for problem in problems:
            output.note(f"drumlin: {problem}")
    if problems:
        raise click.exceptions.Exit(1)


def _find(paths: list[Path]) -> Iterator[tuple[Path, Reader]]:
    for path in paths:
        if path.is_dir():
            yield from (
                (file, reader)
                for file in sorted(path.rglob("*"))
                if (reader := _reader_of(file)) is not None and file.is_file()
            )
            continue
        reader = _reader_of(path)
        if not path.exists():
            raise output.Failure(f"{path}: no such file or directory")
        if reader is None:
            kinds = ", ".join([*_READERS, EPOCHS_FILE])
            raise output.Failure(f"{path}: not a file of a log (known are {kinds})")
        yield path, reader


def _reader_of(path: Path) -> Reader | None:
    return read_leader_epochs if path.name == EPOCHS_FILE else _READERS.get(path.suffix)


def _dump(files: list[tuple[Path, Reader]], deep: bool, as_json: bool) -> list[Problem]:
    problems: list[Problem] = []
    on_terminal = sys.stdout.isatty()
    for path, reader in files:
        if on_terminal and not as_json:
            print(f"\n{path}  ({output.human_bytes(path.stat().st_size)})")
        kind_before = None
        for item in reader(path, deep=deep):
            if isinstance(item, Problem):
                problems.append(item)
            if as_json:
                print(output.json_line(_as_json(path, item)))
            elif isinstance(item, Problem):
                print(f"!! {item.message}" if on_terminal else f"{path}\tproblem\t{item.message}")
            elif on_terminal:
                _print_aligned(item, with_heading=item["kind"] != kind_before)
                kind_before = item["kind"]
            else:
                fields = (f"{name}={_cell(name, value)}" for name, value in item.items())
                print(f"{path}\t" + "\t".join(fields))
    return problems


def _as_json(path: Path, item: Item) -> dict[str, Any]:
    if isinstance(item, Problem):
        return {
            "file": str(path),
            "kind": "problem",
            "position": item.position,
            "message": item.message,
        }
    return {"file": str(path), **item}


def _print_aligned(item: dict[str, Any], *, with_heading: bool) -> None:
    layout = _LAYOUTS[item["kind"]]
    item = {**item, **(item.get("decoded") or {})}  # decoded fields replace bytes
    if with_heading:
        heading = (
            "  ".join(name.replace("_", " ").rjust(width) for name, width in layout)
        ).rstrip()
        print(f"  \033[1m{heading}\033[0m")
    cells = (
        ""
        if item.get(name) is None
        else output.human(name, _cell(name, item[name]), timespec="milliseconds")
        for name, _ in layout
    )
    print(
        "  " + "  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, layout, strict=True))
    )


def _cell(name: str, value: Any) -> Any:
    """Bytes and headers as text; unprintable characters are escaped."""
    if isinstance(value, bytes):
        return repr(value)[2:-1]
    if isinstance(value, dict):
        return output.json_line(value)
    if name == "headers":
        return [f"{header['key']}={_cell('value', header['value'])}" for header in value]
    return value


def _verify(files: list[tuple[Path, Reader]], as_json: bool, verbose: bool) -> list[Problem]:
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    with output.progress() as progress:
        total = sum(path.stat().st_size for path, _ in files)
        task = progress.add_task("verifying", total=total, done="")
        for path, reader in files:
            row, found = _verify_file(path, reader, progress, task)
            rows.append(row)
            problems.extend(found)
    if as_json:
        output.show_json({"files": rows, "problems": [_as_json(p.path, p) for p in problems]})
    else:
        columns = ("file", "size_bytes", "entries", "records", "problems")
        shown = [row for row in rows if verbose or row["problems"]]
        if shown:
            output.show_rows(shown, columns, as_json=False)
        if not rows:
            output.note("no log files found")
            return problems
        records = sum(row["records"] for row in rows)
        output.note(f"{len(rows):,} files, {records:,} records, {len(problems):,} problems")
    return problems


def _verify_file(
    path: Path, reader: Reader, progress: output.Bar, task: TaskID
) -> tuple[dict[str, Any], list[Problem]]:
    entries = records = position = 0
    problems: list[Problem] = []
    for item in reader(path, deep=True):
        if isinstance(item, Problem):
            problems.append(item)
        elif item["kind"] == "record":
            records += 1
        else:
            entries += 1
            advance = item.get("position", position) - position
            position += advance
            progress.update(task, advance=advance, done=path.name)
    size = path.stat().st_size
    progress.update(task, advance=size - position)
    row = {
        "file": str(path),
        "size_bytes": size,
        "entries": entries,
        "records": records,
        "problems": len(problems),
    }
    return row, problems


dump_log_command: Final = command(dump_log, "dump-log", EXAMPLES)
