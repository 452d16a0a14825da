"""A picture on a terminal, by rich: only the rows that fit are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from drumlin.cli.terminal.output import counted, heading, human, printable
from drumlin.cli.top.rates import Picture, Row, View
from drumlin.cli.top.screen import COLUMNS, Screen, shown_rows

_KEYS: Final = "q quit  space pause  tab view  s sort  r reverse  / filter  i internal  ? help"
_HELP: Final = (
    ("1 … 5, tab", "another view"),
    ("s, S", "sort by the next, or the previous, column"),
    ("r", "reverse the order"),
    ("/", "filter by name: a part of it, or a pattern with * and ?; escape ends that"),
    ("i", "show internal topics, or hide them"),
    ("up, down, page up, page down, home", "scroll"),
    ("space, p", "pause: nothing is asked meanwhile"),
    ("q", "quit"),
)
#: The lines that are not rows: above the table, its heading, below it.
_AROUND: Final = 5


def page_rows(height: int, picture: Picture | None) -> int:
    """The number of rows that fit on a screen."""
    return max(1, height - _AROUND - len(picture.own if picture else ()))


def painted(
    picture: Picture | None,
    screen: Screen,
    views: Sequence[View],
    height: int,
    error: str | None = None,
) -> Group:
    """The whole screen."""
    if picture is None:
        return Group(Text(printable(error) if error else "looking ...", style="bold"))
    rows = shown_rows(picture, screen)
    page = page_rows(height, picture)
    first = min(screen.first_row, max(0, len(rows) - page))
    body = _help() if screen.shows_help else _table(rows[first : first + page], screen)
    return Group(
        _totals(picture, screen),
        _trouble(picture, error),
        *(_own(each) for each in picture.own),
        _tabs(screen, views, len(rows), first),
        body,
        _footer(screen),
    )


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _totals(picture: Picture, screen: Screen) -> Text:
    totals = picture.totals
    counts = ", ".join(
        counted(totals[f"{thing}s"], thing) for thing in ("broker", "topic", "partition", "group")
    )
    sent = totals["bytes_out_per_s"]
    out = "" if sent is None else f"{human('bytes_out_per_s', sent)}/s out, "
    rates = (
        f"{human('records_in_per_s', totals['records_in_per_s'])} records/s, "
        f"{human('bytes_in_per_s', totals['bytes_in_per_s'])}/s in, {out}lag {totals['lag']:,}"
    )
    paused = "  PAUSED" if screen.is_paused else ""
    return _line(f"{picture.cluster_id}  {counts};  {rates}{paused}", "bold")


def _trouble(picture: Picture, error: str | None) -> Text:
    if error is not None:
        return _line(error, "bold red")
    totals = picture.totals
    found = [
        f"{totals[key]:,} {words}"
        for key, words in (
            ("offline", "partitions offline"),
            ("offline_log_dirs", "log dirs offline"),
            ("under_replicated", "partitions under-replicated"),
        )
        if totals[key]
    ]
    if totals["silent_brokers"]:
        silent = ", ".join(map(str, totals["silent_brokers"]))
        found.insert(0, f"no answer from brokers {silent}: what they lead is not counted")
    if not found:
        return _line("all replicas are in sync", "green")
    is_bad = totals["offline"] or totals["offline_log_dirs"] or totals["silent_brokers"]
    return _line("; ".join(found), "bold red" if is_bad else "yellow")


def _own(row: Row) -> Text:
    if row["error"] is not None:
        return _line(row["error"], "red")
    said = {name: human(name, value) for name, value in row.items()}
    return _line(
        f"{row['http']}: {said['busy_ratio']} of a core, longest turn {said['longest_turn_ms']}, "
        f"{said['stalls_per_s']} stalls/s; {said['bytes_out_per_s']}/s out; "
        f"cleaner {said['cleaned_bytes_per_s']}/s, "
        f"{said['uncleanable']} uncleanable",
        "yellow" if row["uncleanable"] else "",
    )


def _tabs(screen: Screen, views: Sequence[View], count: int, first: int) -> Text:
    text = Text(no_wrap=True)
    for number, view in enumerate(views, 1):
        text.append(f" {number} {view} ", "reverse" if view == screen.view else "dim")
        text.append(" ")
    of = f"{first + 1:,} of {count:,}" if count else "nothing"
    pattern = f"  like {screen.pattern}" if screen.pattern and not screen.is_typing else ""
    text.append(printable(f" {of}{pattern}"), "dim")
    return text


def _table(rows: Sequence[Row], screen: Screen) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    arrow = "▼" if screen.is_descending else "▲"
    for column in COLUMNS[screen.view]:
        is_number = any(isinstance(row.get(column), int | float) for row in rows)
        mark = arrow if column == screen.sort else ""
        table.add_column(
            heading(column) + mark,
            justify="right" if is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        style = "red" if row.get("offline") or row.get("state") == "offline" else None
        cells = (printable(human(each, row.get(each))) for each in COLUMNS[screen.view])
        table.add_row(*map(Text, cells), style=style)
    return table


def _help() -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for keys, meaning in _HELP:
        table.add_row(Text(keys, "bold"), Text(meaning))
    return table


def _footer(screen: Screen) -> Text:
    if screen.is_typing:
        return _line(f"filter: {screen.pattern}█", "bold")
    return _line(_KEYS, "dim")
