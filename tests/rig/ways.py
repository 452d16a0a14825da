"""How long a way through the code is, by the call stack, as docs/architecture.md tells it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

import drumlin

_DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"
_SOURCES = Path(drumlin.__file__).parent


class Told(NamedTuple):
    """A row of the document."""

    calls: int
    files: int
    names: list[str]


def told_ways() -> dict[str, Told]:
    section = _DOCUMENT.read_text("utf-8").split("## How long the ways are")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \| (.+) \|$", section, re.MULTILINE)
    return {
        name: Told(int(calls), int(files), re.findall(r"`(.+?)`", names))
        for name, calls, files, names in rows
    }


def _stack(first: CodeType) -> list[CodeType]:
    """The functions from `first` down to the one that has called what calls this; or none."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    frame = frame.f_back.f_back
    found = []
    while frame is not None:
        found.append(frame.f_code)
        if frame.f_code is first:
            return found[::-1]
        frame = frame.f_back
    return []


@contextmanager
def noted(
    first: CodeType, last: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[list[CodeType]]]:
    """The functions from `first` to `last`, both included, of each time that they were called."""
    owner, name = last
    real = getattr(owner, name)
    ways: list[list[CodeType]] = []

    def noting(*args: Any, **more: Any) -> Any:
        stack = _stack(first)
        if stack:
            ways.append([*stack, real.__code__])
        return real(*args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, noting)
        yield ways


def assert_as_told(name: str, functions: list[CodeType], calls_max: int, files_max: int) -> None:
    """The document tells the length of this way, which is no longer than it may be."""
    told = told_ways()[name]
    sources = dict.fromkeys(Path(each.co_filename) for each in functions)
    files = [str(each.relative_to(_SOURCES).with_suffix("")) for each in sources]
    shown = " > ".join(each.co_qualname for each in functions)
    assert (len(functions) - 1, len(files)) == (told.calls, told.files), shown
    assert len(files) == len(told.names), files
    assert all(
        f"/{each}".endswith(f"/{name}") for each, name in zip(files, told.names, strict=True)
    ), files
    assert told.calls <= calls_max
    assert told.files <= files_max
