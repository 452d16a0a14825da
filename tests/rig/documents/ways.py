"""How long the ways through the code are, as docs/architecture.md tells it: a mirror, no limit.

No code is to be written for these numbers. When they have changed, `pytest --record-own` with the
test that counts them writes the row anew.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

import drumlin

_DOCUMENT = Path(__file__).parents[3] / "docs" / "architecture.md"
_SOURCES = Path(drumlin.__file__).parent
_HEADING = "## How long the paths are"
_NOTHING = "-"
#: By how many parts of a hundred a number may be another than the document's.
_TOLERANCE = 10


class Way(NamedTuple):
    """A row of the document.

    depth: how many calls are in the stack at the end of the way.
    calls, files: all functions that were called for it, and the files that they are in.
    names: of the files in the stack.
    """

    depth: int | None = None
    calls: int | None = None
    files: int | None = None
    names: Sequence[str] = ()

    def row(self, name: str) -> str:
        numbers = [_NOTHING if each is None else str(each) for each in self[:3]]
        names = ", ".join(f"`{each}`" for each in self.names) or _NOTHING
        return f"| {' | '.join((name, *numbers, names))} |"


def way_of(stack: Sequence[CodeType], called: Sequence[CodeType] = ()) -> Way:
    """The way that ends with the last function of `stack`, of all those that were `called`."""
    names = dict.fromkeys(Path(each.co_filename) for each in stack)
    return Way(
        len(stack) - 1 if stack else None,
        len(called) or None,
        len({each.co_filename for each in called}) or None,
        [_short(each) for each in names],
    )


def _short(path: Path) -> str:
    """The file's name; with its folder's, where others are called so, too."""
    name = path.with_suffix("").relative_to(_SOURCES)
    is_sole = len(list(_SOURCES.rglob(path.name))) == 1
    return name.name if is_sole else "/".join(name.parts[-2:])


def assert_as_told(name: str, found: Way, config: pytest.Config) -> None:
    """The document shows this way; or is made to, with `--record-own`."""
    text = _DOCUMENT.read_text("utf-8")
    before, section = text.split(_HEADING)
    row = re.search(rf"^\| {re.escape(name)} \|.*\|$", section, re.MULTILINE)
    assert row is not None, f"no row for {name}: {found.row(name)}"
    if config.getoption("record_own"):
        section = section.replace(row.group(), found.row(name))
        _DOCUMENT.write_text(before + _HEADING + section, "utf-8")
        return
    _, *cells = (cell.strip() for cell in row.group().strip("|").split("|"))
    numbers = [None if cell == _NOTHING else int(cell) for cell in cells[:3]]
    told = Way(*numbers, re.findall(r"`(.+?)`", cells[3]))
    are_alike = _stems(told) == _stems(found) and all(map(_is_about, told[:3], found[:3]))
    assert are_alike, f"{row.group()}\nis now\n{found.row(name)}"


def _stems(way: Way) -> list[str]:
    """Without the folders, which are there or not as other files are named."""
    return [each.rsplit("/")[-1] for each in way.names]


def _is_about(told: int | None, found: int | None) -> bool:
    if told is None or found is None:
        return told is found
    return 100 * abs(told - found) <= _TOLERANCE * told


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


class Calls:
    """Notes the project's functions that one thread calls, while it `is_noting`.

    Comprehensions are not counted: they are calls in some versions of Python only.
    """

    def __init__(self, within: CodeType | None = None) -> None:
        """`within`: only what this function calls is counted."""
        self.is_noting = False
        self.made: list[CodeType] = []
        self._within = within
        self._depth = 0 if within else 1

    @contextmanager
    def noted(self) -> Iterator[None]:
        """To be entered by the thread."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.is_noting or event not in ("call", "return"):
            return
        code = frame.f_code
        if code is self._within:
            self._depth += 1 if event == "call" else -1
        is_ours = code.co_filename.startswith(f"{_SOURCES}/")
        is_function = not code.co_name.startswith("<") or code.co_name == "<lambda>"
        if event == "call" and self._depth and is_ours and is_function:
            self.made.append(code)
