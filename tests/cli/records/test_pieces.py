"""The pieces that `drumlin produce` writes, whatever parts a stream comes in."""

from __future__ import annotations

import io
import os
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.cli.records.pieces import PieceTooLarge, pieces, standard_input


class _InParts(io.RawIOBase):
    """A stream that comes in these parts."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = [each for each in parts if each]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part = self._parts.pop(0) if self._parts else b""
        buffer[: len(part)] = part
        return len(part)


@given(
    st.lists(st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r", b"ab"]), max_size=6), max_size=6),
    st.sampled_from([b"\n", b"ab", b"aa", b"b"]),
)
def test_parts_of_a_stream_make_no_difference(parts: list[list[bytes]], delimiter: bytes) -> None:
    chunks = [b"".join(each) for each in parts]
    expected = b"".join(chunks).split(delimiter)
    if not expected[-1]:
        expected.pop()
    if delimiter == b"\n":
        expected = [each.removesuffix(b"\r") for each in expected]
    assert list(pieces(io.BufferedReader(_InParts(chunks)), delimiter)) == expected


@pytest.mark.parametrize("delimiter", [b"\n", b";;"])
def test_a_piece_is_there_before_the_next_one(delimiter: bytes) -> None:
    """Of a pipe that stays open."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as source, os.fdopen(write_end, "wb", 0) as target:
        found = pieces(source, delimiter)
        for each in (b"first", b"second"):
            target.write(each + delimiter)
            assert next(found) == each


@pytest.mark.parametrize("delimiter", [b"\n", b";;"])
def test_a_piece_has_a_limit(delimiter: bytes) -> None:
    """Those before it are there; no more than the limit is kept."""
    source = io.BytesIO(b"x" * 100 + delimiter + b"y" * 10_000)
    found = pieces(io.BufferedReader(source), delimiter, most_bytes=1000)
    assert next(found) == b"x" * 100
    with pytest.raises(PieceTooLarge, match="more than 1,000 bytes"):
        next(found)


def test_a_standard_input_that_does_not_wait_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes late is no end: shells and other programs share such pipes."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with os.fdopen(read_end) as text, os.fdopen(write_end, "wb", 0) as target:
        monkeypatch.setattr(sys, "stdin", text)
        found = pieces(standard_input(), b"\n")
        target.write(b"first\n")
        assert next(found) == b"first"
        later = threading.Timer(0.05, lambda: target.write(b"second\n"))
        later.start()
        try:
            assert next(found) == b"second"
        finally:
            later.join()
