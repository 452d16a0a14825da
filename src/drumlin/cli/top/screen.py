"""What is on the screen, and what keys make of it: a state, and a function of state and key."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from drumlin.cli.top.rates import Picture, Row, View

#: The columns of each view; the first says whose row it is, and is what a filter looks at.
COLUMNS: Final[dict[View, tuple[str, ...]]] = {
    View.TOPICS: (
        *("topic", "partitions", "records_in_per_s", "bytes_in_per_s", "bytes_out_per_s"),
        *("size_bytes", "under_replicated", "offline"),
    ),
    View.PARTITIONS: (
        *("topic", "partition", "records_in_per_s", "bytes_in_per_s", "size_bytes"),
        *("end_offset", "leader", "isr", "state"),
    ),
    View.GROUPS: ("group", "state", "topics", "lag", "lag_per_s", "read_per_s", "behind_ms"),
    View.BROKERS: (
        *("broker", "address", "is_controller", "leaders", "replicas", "records_in_per_s"),
        *("bytes_in_per_s", "size_bytes", "free_bytes", "offline_log_dirs"),
    ),
    View.CLEANER: (
        *("topic", "partition", "tail_bytes", "head_bytes", "dirty_ratio"),
        *("cleaned_timestamp", "freed_bytes", "state"),
    ),
}
#: The column by which a view is sorted at first, and whether the largest is at the top.
_SORTED: Final = {
    View.TOPICS: ("records_in_per_s", True),
    View.PARTITIONS: ("records_in_per_s", True),
    View.GROUPS: ("lag", True),
    View.BROKERS: ("broker", False),
    View.CLEANER: ("dirty_ratio", True),
}
_FILTER_MAX: Final = 100
#: The keys of `less` and `vi`.
_SAME_AS: Final = {"j": "down", "k": "up"}


@dataclass(frozen=True, slots=True)
class Screen:
    """What is shown, and how."""

    view: View = View.TOPICS
    sort: str = _SORTED[View.TOPICS][0]
    is_descending: bool = True
    pattern: str = ""
    is_typing: bool = False  # the pattern
    first_row: int = 0
    shows_internal: bool = False
    shows_help: bool = False
    is_paused: bool = False
    is_over: bool = False


def showing(view: View, screen: Screen | None = None) -> Screen:
    """The screen with another view, in that view's own order."""
    sort, is_descending = _SORTED[view]
    return dataclasses.replace(
        screen or Screen(), view=view, sort=sort, is_descending=is_descending, first_row=0
    )


def pressed(screen: Screen, key: str, page: int, views: Sequence[View] = tuple(View)) -> Screen:
    """The screen after a key, of which `page` rows fit on it."""
    if screen.is_typing:
        return _typed(screen, key)
    key = _SAME_AS.get(key, key)
    if key in ("up", "down", "pageup", "pagedown", "home"):
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "home": -screen.first_row}
        return dataclasses.replace(screen, first_row=max(0, screen.first_row + steps[key]))
    if key.isdecimal() and 0 < int(key) <= len(views):
        return showing(views[int(key) - 1], screen)
    if key in ("tab", "backtab"):
        step = 1 if key == "tab" else -1
        return showing(views[(views.index(screen.view) + step) % len(views)], screen)
    changes = _changes(screen, key)
    return dataclasses.replace(screen, **changes) if changes else screen


def _changes(screen: Screen, key: str) -> dict[str, Any]:
    match key:
        case "q":
            return {"is_over": True}
        case "p" | " ":
            return {"is_paused": not screen.is_paused}
        case "s" | "S":
            columns = COLUMNS[screen.view]
            step = 1 if key == "s" else -1
            after = columns[(columns.index(screen.sort) + step) % len(columns)]
            return {"sort": after, "is_descending": after != columns[0], "first_row": 0}
        case "r":
            return {"is_descending": not screen.is_descending, "first_row": 0}
        case "/":
            return {"is_typing": True, "pattern": "", "first_row": 0}
        case "escape":
            return {"pattern": "", "shows_help": False, "first_row": 0}
        case "i":
            return {"shows_internal": not screen.shows_internal, "first_row": 0}
        case "?" | "h":
            return {"shows_help": not screen.shows_help}
    return {}


def _typed(screen: Screen, key: str) -> Screen:
    if key == "enter":
        return dataclasses.replace(screen, is_typing=False)
    if key == "escape":
        return dataclasses.replace(screen, is_typing=False, pattern="")
    if key == "backspace":
        return dataclasses.replace(screen, pattern=screen.pattern[:-1])
    if len(key) == 1 and key.isprintable() and len(screen.pattern) < _FILTER_MAX:
        return dataclasses.replace(screen, pattern=screen.pattern + key)
    return screen


def shown_rows(picture: Picture, screen: Screen) -> list[Row]:
    """The rows of the view, filtered and sorted; what is not known comes last."""
    name = COLUMNS[screen.view][0]
    rows = [
        row
        for row in picture.rows(screen.view)
        if (screen.shows_internal or not row.get("is_internal"))
        and _is_meant(str(row[name]), screen.pattern)
    ]
    known = [row for row in rows if row.get(screen.sort) is not None]
    unknown = [row for row in rows if row.get(screen.sort) is None]
    known.sort(key=lambda row: row[screen.sort], reverse=screen.is_descending)
    return known + unknown


def _is_meant(name: str, pattern: str) -> bool:
    """Whether a name is like a pattern with * and ?, or has it somewhere."""
    if "*" in pattern or "?" in pattern:
        return fnmatch.fnmatchcase(name, pattern)
    return pattern.lower() in name.lower()
