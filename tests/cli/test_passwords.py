"""Passwords that a command reads from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.cli.access.passwords import read_password
from drumlin.cli.terminal.output import Failure


@pytest.mark.parametrize(
    ("content", "password"),
    [
        ("one\n", "one"),
        ("one", "one"),
        ("one\r\ntwo\n", "one"),
        ("a\fb\x1cc\x85d\u2028e\rf\n", "a\fb\x1cc\x85d\u2028e\rf"),  # for Python six lines
    ],
)
def test_the_first_line_is_the_password(tmp_path: Path, content: str, password: str) -> None:
    (tmp_path / "password").write_bytes(content.encode())
    assert read_password("alice", tmp_path / "password").reveal() == password


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "has no password"), (b"\r\none", "has no password"), (b"\xff\n", "is not UTF-8")],
)
def test_a_file_without_a_password(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "password").write_bytes(content)
    with pytest.raises(Failure, match=why):
        read_password("alice", tmp_path / "password")
