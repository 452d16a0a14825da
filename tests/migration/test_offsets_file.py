"""Files of offsets: what is written comes back, what Kafka's tool writes is read, junk is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.migration.offsets_file import OffsetRow, read_file, write_file

ROWS = [
    OffsetRow("reporting", "flights", 0, 0),
    OffsetRow("reporting", "flights", 1, 2**63 - 1, 'a "quoted", text\nof two lines'),
    OffsetRow("Prüfung", "delays.per-day", 7, 12, "página"),
]


@pytest.mark.parametrize("name", ["offsets.csv", "offsets.json", "offsets.txt"])
def test_what_is_written_comes_back(tmp_path: Path, name: str) -> None:
    write_file(tmp_path / name, ROWS)
    assert read_file(tmp_path / name) == ROWS
    write_file(tmp_path / name, ROWS[:1])
    assert read_file(tmp_path / name) == ROWS[:1]
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("t,0,5\nt,1,6\n", [OffsetRow(None, "t", 0, 5), OffsetRow(None, "t", 1, 6)]),
        ('"g","t",0,5\n\n', [OffsetRow("g", "t", 0, 5)]),
        ("offset,topic,partition\n5,t,0\n", [OffsetRow(None, "t", 0, 5)]),
        ("t,0,5\nt,0,5\n", [OffsetRow(None, "t", 0, 5)] * 2),
        ("", []),
    ],
)
def test_what_others_write_is_read(tmp_path: Path, text: str, rows: list[OffsetRow]) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text(text)
    assert read_file(path) == rows


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.csv", "t,0,5\nt,0\n", "line 2: 2 fields, 3 were expected"),
        ("a.csv", "t,0\n", "line 1: neither a header nor"),
        ("a.csv", "t,0,-1\n", "line 1: '-1' is no offset"),
        ("a.csv", "t,0,9223372036854775808\n", "is no offset"),
        ("a.csv", "t,zero,1\n", "'zero' is no partition"),
        ("a.csv", f"t,0,{'9' * 5000}\n", "99' is no offset"),
        ("a.csv", f"t,0,{'9' * 140_000}\n", "a.csv: field larger than field limit"),
        ("a.csv", "t,0,5\nt,0,6\n", "two offsets for t-0"),
        ("a.csv", ",0,5\n", "no topic"),
        ("a.json", "{}", "not a list"),
        ("a.json", "[7]", "entry 1 is not an object"),
        ("a.json", '[{"topic": "t", "partition": 0}]', "'None' is no offset"),
        ("a.json", "nonsense", "not JSON"),
    ],
)
def test_junk_is_named(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.(csv|json)") as raised:
        read_file(path)
    assert complaint in str(raised.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,0,\xff\n")
    with pytest.raises(ValueError, match=r"a\.csv: .*can't decode"):
        read_file(path)
