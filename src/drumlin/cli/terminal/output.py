"""The output of commands: a table for a person, tab-separated lines for a pipe,
JSON for a program.

Rows are dictionaries whose keys are the JSON names. A key's last word is its unit (`_bytes`,
`_ms`, `_ratio`, `_per_s`, `timestamp`, `since`); a terminal, and only a terminal, gets such values
in a readable form. Nothing here knows Kafka.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from drumlin.client.values.json_text import json_text

if TYPE_CHECKING:  # loaded only for output on a terminal
    from rich.progress import TaskID
    from rich.table import Table

Row = Mapping[str, Any]

_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS_MS = (("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000))
#: Characters that a terminal obeys, that change the direction of what is shown, or that are halves.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: What would be taken for the end of a field or of a line.
_IN_FIELD = {ord("\t"): r"\t", ord("\n"): r"\n", ord("\r"): r"\r"}


class Failure(Exception):
    """An error that is printed in one line before the command ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def show_rows(
    rows: Sequence[Row],
    columns: Sequence[str],
    *,
    as_json: bool,
    title: str | None = None,
    empty: str = "nothing to show",
    plain_first: str | None = None,
) -> None:
    """Print `rows`; tables and pipes get `columns` only, JSON gets every key.

    `plain_first` is an extra first column for pipes, with the value that is the title of a table.
    """
    if as_json:
        show_json(list(rows))
    elif not sys.stdout.isatty():
        shown = [plain_first, *columns] if plain_first else columns
        if os.environ.get("DRUMLIN_HEADINGS"):
            print("\t".join(shown))
        for row in rows:
            print("\t".join(plain(row.get(column)) for column in shown))
    elif not rows:
        note(empty)
    else:
        from rich.console import Console

        Console().print(_table(rows, columns, title))


def show_changes(rows: Sequence[Row], sentences: Iterable[str], as_json: bool) -> None:
    """Report changes: JSON for programs, one line each for people and pipes."""
    if as_json:
        show_json(list(rows))
        return
    for sentence in sentences:
        print(printable(sentence))


def _table(rows: Sequence[Row], columns: Sequence[str], title: str | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    # As text: a name may have brackets, which would be markup.
    heading_text = None if title is None else Text(visible(title), style="table.title")
    table = Table(
        title=heading_text, title_justify="left", header_style="bold", box=None, pad_edge=False
    )
    for column in columns:
        numeric = any(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(
            heading(column),
            justify="right" if numeric else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(printable(human(column, row.get(column)))) for column in columns))
    return table


def heading(column: str) -> str:
    """A column's name as people read it."""
    for unit in ("_bytes", "_ms", "_timestamp"):  # each cell has its unit
        column = column.removesuffix(unit)
    if column.endswith("_per_s"):
        column = column.removesuffix("_per_s") + "/s"
    return column.removeprefix("is_").replace("_", " ")


def show_file(path: Path, records: int, as_json: bool) -> None:
    """Report the records that were written to a file."""
    size = path.stat().st_size
    if as_json:
        show_json({"file": str(path), "records": records, "size_bytes": size})
    else:
        note(f"{counted(records, 'record')} in {path} ({human_bytes(size)})")


def show_json(value: Any) -> None:
    """One JSON document."""
    print(_escaped(json_text(value, indent=2)))


def json_line(value: Any) -> str:
    """One compact JSON document without its newline, for streams of them."""
    return _escaped(json_text(value))


def _escaped(text: str) -> str:
    """JSON whose strings have nothing that a terminal would obey; their values are the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain(value: Any) -> str:
    """One field of a tab-separated line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(plain(item) for item in value)
    return str(value).translate(_IN_FIELD)


def human(column: str, value: Any, *, timespec: str = "seconds") -> str:
    """One cell of a table, in the unit that the column's name gives."""
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        if column.endswith("_bytes"):
            return human_bytes(value)
        if column.endswith("_ms"):
            return human_duration(value)
        if column.endswith(("timestamp", "since")):
            return human_timestamp(value, timespec)
    if column.endswith("_per_s"):
        return _human_rate(column, value)
    if isinstance(value, float):
        return f"{value:.1%}" if column.endswith("_ratio") else f"{value:.1f}"
    return plain(value)


def _human_rate(column: str, value: float) -> str:
    if "bytes" in column:
        return human_bytes(round(value))
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.1f}"


def printable(text: str) -> str:
    """Text without what a terminal would obey: names of groups and clients may be anything."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def visible(text: str) -> str:
    """The same for texts that may have lines and tabs, such as values of records."""
    return _OBEYED.sub("\ufffd", text)


def counted(count: int, thing: str) -> str:
    """A number of things, as `1 record`, `2,000 records`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def human_bytes(count: int) -> str:
    amount = float(count)
    for unit in _SIZE_UNITS:
        if abs(amount) < 1024 or unit == _SIZE_UNITS[-1]:
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def human_duration(duration_ms: int) -> str:
    """A duration, as `850 ms`, `32.6 s`, `15 min`."""
    name, size = "ms", 1
    for unit, unit_ms in _TIME_UNITS_MS:
        if abs(duration_ms) >= unit_ms:
            name, size = unit, unit_ms
    return f"{round(duration_ms / size, 1):g} {name}"


def human_timestamp(timestamp_ms: int, timespec: str = "milliseconds") -> str:
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def is_coloured() -> bool:
    """Whether to colour results: on a terminal, unless NO_COLOR says otherwise."""
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return is_wanted and sys.stdout.isatty()


def coloured(lines: Iterable[str]) -> Iterator[str]:
    """Lines of JSON in the colours of a terminal."""
    from rich.console import Console
    from rich.highlighter import JSONHighlighter

    console, highlight = Console(force_terminal=True, width=1 << 20), JSONHighlighter()
    for line in lines:
        with console.capture() as captured:
            console.print(highlight(line), soft_wrap=True, end="")
        yield captured.get()


def note(message: str) -> None:
    """Print a note on standard error, separate from the results."""
    print(visible(message), file=sys.stderr)


class Bar(Protocol):
    """The progress of long work, as a bar or not shown at all."""

    def add_task(self, description: str, *, total: float | None, **fields: Any) -> TaskID: ...
    def update(self, task_id: TaskID, **fields: Any) -> None: ...
    def advance(self, task_id: TaskID, advance: float = 1) -> None: ...


class _NoBar:
    """Replaces a bar if there is no terminal to paint one on."""

    def add_task(self, description: str, *, total: float | None, **fields: Any) -> TaskID:  # noqa: ARG002
        return cast("TaskID", 0)

    def update(self, task_id: TaskID, **fields: Any) -> None:
        """Paint nothing."""

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Paint nothing."""


@contextmanager
def progress(*, enabled: bool = True) -> Iterator[Bar]:
    """A bar for long work; it draws on standard error, and only on a terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield _NoBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as painted:
        yield painted
