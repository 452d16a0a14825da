"""Committed offsets in a file: JSON if its name ends in `.json`, otherwise CSV.

CSV has the header `group,topic,partition,offset,metadata`. The output of `kafka-consumer-groups
--export` can be read, too: no header, and `topic,partition,offset`, which the group may precede.
JSON is a list of objects with the same keys.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

COLUMNS: Final = ("group", "topic", "partition", "offset", "metadata")
_WITHOUT_HEADER: Final = {3: COLUMNS[1:4], 4: COLUMNS[:4]}
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1
_DIGITS_MAX: Final = 19
_SHOWN_MAX: Final = 40


class OffsetRow(NamedTuple):
    """One committed offset; `group` is None if the file does not name groups."""

    group: str | None
    topic: str
    partition: int
    offset: int
    metadata: str = ""


def read_file(path: Path) -> list[OffsetRow]:
    """All rows of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a committed offset, or contradicts an earlier line.
    """
    with path.open(encoding="utf-8", newline="") as source:
        read = _json_rows if path.suffix == ".json" else _csv_rows
        try:
            rows = list(read(path, source))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path}: {error}") from None
    offsets: dict[tuple[str | None, str, int], int] = {}
    for row in rows:
        if offsets.setdefault(row[:3], row.offset) != row.offset:
            where = f"{row.topic}-{row.partition}"
            raise ValueError(f"{path}: two offsets for {where} of group {row.group!r}")
    return rows


def write_file(path: Path, rows: Iterable[OffsetRow]) -> None:
    """Write a file in the format that its name implies; an existing file is replaced atomically."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8", newline="") as sink:
        if path.suffix == ".json":
            json.dump([row._asdict() for row in rows], sink, indent=2, ensure_ascii=False)
            sink.write("\n")
        else:
            write_csv(sink, rows)
    new.replace(path)


def write_csv(sink: TextIO, rows: Iterable[OffsetRow]) -> None:
    """Write the header and the rows as CSV."""
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)


def _json_rows(path: Path, source: TextIO) -> Iterator[OffsetRow]:
    try:
        listed = json.load(source)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(listed, list):
        raise ValueError(f"{path}: not a list of objects")
    for number, each in enumerate(listed, 1):
        if not isinstance(each, dict):
            raise ValueError(f"{path}: entry {number} is not an object")
        yield _row(each, f"{path}, entry {number}")


def _csv_rows(path: Path, source: TextIO) -> Iterator[OffsetRow]:
    columns: Sequence[str] | None = None
    reader = csv.reader(source)
    for fields in reader:
        where = f"{path}, line {reader.line_num}"
        if not fields:
            continue
        if columns is None:
            if {"topic", "partition", "offset"} <= set(fields):
                columns = fields
                continue
            if len(fields) not in _WITHOUT_HEADER:
                raise ValueError(f"{where}: neither a header nor topic,partition,offset")
            columns = _WITHOUT_HEADER[len(fields)]
        if len(fields) != len(columns):
            raise ValueError(f"{where}: {len(fields)} fields, {len(columns)} were expected")
        yield _row(dict(zip(columns, fields, strict=True)), where)


def _row(fields: dict[str, Any], where: str) -> OffsetRow:
    group, topic = fields.get("group") or None, fields.get("topic")
    if not isinstance(topic, str) or not topic or not isinstance(group, str | None):
        raise ValueError(f"{where}: no topic, or an invalid group name")
    return OffsetRow(
        group,
        topic,
        _number(fields, "partition", _PARTITION_MAX, where),
        _number(fields, "offset", _OFFSET_MAX, where),
        str(fields.get("metadata") or ""),
    )


def _number(fields: dict[str, Any], name: str, largest: int, where: str) -> int:
    text = str(fields.get(name)).strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    if not is_number or int(text) > largest:
        raise ValueError(f"{where}: {text[:_SHOWN_MAX]!r} is no {name}")
    return int(text)
