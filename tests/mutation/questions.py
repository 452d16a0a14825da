"""A mutant for each question about rights in the broker: one in which it is not asked.

They are made from the source, so none is forgotten: a new question that no test needs survives.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mutation.mutant import Mutant

_BROKER: Final = "broker"
#: Methods of a request's context and of an authorizer, and what stands there instead of their call.
_UNASKED: Final = {
    "may": "True",
    "may_cluster": "True",
    "allows_any": "True",
    "require": "None",
    "require_cluster": "None",
    "topic_right": "None",
}
#: Where the questions themselves are written.
_OWN: Final = {"broker/context.py"}
_TESTS: Final = (
    *("tests/rights", "tests/broker/rights", "tests/login/test_delegation_tokens.py"),
    "tests/differential/rights",
)


def all_questions(root: Path) -> list[Mutant]:
    """One mutant for each call, in the order of the files."""
    package = root / "src" / "drumlin"
    found: list[Mutant] = []
    for path in sorted((package / _BROKER).rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if file not in _OWN:
            found += _mutants(file, path.read_text("utf-8"))
    return found


def _mutants(file: str, source: str) -> Iterator[Mutant]:
    numbers: Counter[str] = Counter()
    for call, method in _questions(source):
        begin, end = _span(source, call)
        first, last = _unique(source, begin, end)
        numbers[method] += 1
        yield Mutant(
            id=f"unasked-{Path(file).stem}-{method}-{numbers[method]}".replace("_", "-"),
            file=file,
            old=source[first:last],
            new=source[first:begin] + _UNASKED[method] + source[end:last],
            tests=_TESTS,
            loses="who has no right does it all the same, or sees it",
        )


def _questions(source: str) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _UNASKED:
                yield node, name


def _span(source: str, node: ast.expr) -> tuple[int, int]:
    """Where a node begins and ends, in characters."""
    lines = source.splitlines(keepends=True)

    def place(line: int, column: int) -> int:
        before = lines[line - 1].encode()[:column].decode()
        return sum(map(len, lines[: line - 1])) + len(before)

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    begin = place(node.lineno, node.col_offset)
    return begin, place(node.end_lineno, node.end_col_offset)


def _unique(source: str, begin: int, end: int) -> tuple[int, int]:
    """The least number of whole lines around it that stand there once."""
    first = source.rfind("\n", 0, begin) + 1
    last = source.find("\n", end) + 1 or len(source)
    while source.count(source[first:last]) > 1:
        first = source.rfind("\n", 0, first - 1) + 1
    return first, last
