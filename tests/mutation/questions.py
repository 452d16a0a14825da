"""A mutant for each question about rights in the broker: one in which it is not asked.

They are made from the source, so none is forgotten: a new question that no test needs survives.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mutation.mutant import Mutant

_BROKER: Final = "broker"
_HANDLERS: Final = "broker/handlers"
#: Operations of all kinds of resources.
_EVERY_BIT: Final = "0xFFFF"
#: Methods of a request's context and of an authorizer, and what stands there instead of their call.
METHODS: Final = {
    "may": "True",
    "sees": "True",
    "may_cluster": "True",
    "sees_cluster": "True",
    "allows_any": "True",
    "require": "None",
    "require_cluster": "None",
    "topic_right": "None",
    "operations": _EVERY_BIT,
    "cluster_operations": _EVERY_BIT,
}
#: Functions that ask for several APIs, each of which might forget to call them. `{2}`: what they
#: are given at that place.
FUNCTIONS: Final = {
    "allowed": "{2}",
    "authorized_operations": _EVERY_BIT,
    "check_described": "None",
    "check_subscribed": "None",
    "denying": "(lambda _: False)",
    "may_create": "True",
    "require_config_right": "None",
    "require_group": "None",
    "require_login": "None",
}
#: Where the questions themselves are written.
_OWN: Final = {"broker/context.py"}
_SCRIPTS: Final = "tests/differential/rights"
_TESTS: Final = (
    *(_SCRIPTS, "tests/rights", "tests/broker/rights", "tests/login/test_delegation_tokens.py"),
)
#: A script there, and the API that it is about.
_SCRIPT: Final = re.compile(r'^@each_right\("(\w+)".*\)\ndef (\w+)\(', re.MULTILINE)


def all_questions(root: Path) -> list[Mutant]:
    """One mutant for each call, in the order of the files."""
    package = root / "src" / "drumlin"
    found: list[Mutant] = []
    scripts = _scripts(root / _SCRIPTS)
    for path in sorted((package / _BROKER).rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if file not in _OWN:
            own = (each for api in _apis(package, path) for each in scripts.get(api, ()))
            tests = (*own, *_TESTS)
            found += _mutants(file, path.read_text("utf-8"), tests)
    return found


def _apis(package: Path, path: Path) -> list[str]:
    """The API of a module of handlers; those whose handlers import another module."""
    name = f"drumlin.{path.relative_to(package).with_suffix('').as_posix().replace('/', '.')}"
    handlers = sorted((package / _HANDLERS).glob("*.py"))
    asking = [each.stem for each in handlers if f"from {name} import" in each.read_text("utf-8")]
    return list(dict.fromkeys([path.stem, *asking]))


def _scripts(folder: Path) -> dict[str, list[str]]:
    """The scripts about an API, which come first as they are likely to notice."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("test_*.py")):
        for api, script in _SCRIPT.findall(path.read_text("utf-8")):
            found.setdefault(api, []).append(f"{_SCRIPTS}/{path.name}::{script}")
    return found


def _mutants(file: str, source: str, tests: tuple[str, ...]) -> Iterator[Mutant]:
    numbers: Counter[str] = Counter()
    for name, node, unasked in _questions(source):
        begin, end = _span(source, node)
        first, last = _unique(source, begin, end)
        numbers[name] += 1
        yield Mutant(
            id=f"unasked-{Path(file).stem}-{name}-{numbers[name]}".replace("_", "-"),
            file=file,
            old=source[first:last],
            new=source[first:begin] + unasked + source[end:last],
            tests=tests,
            loses="who has no right does it all the same, or sees it",
        )


def asking_functions(source: str) -> set[str]:
    """The functions of a module that ask for rights, or call one of it that does."""
    found: set[str] = set()
    functions = [
        (node.name, {_called(each) for each in ast.walk(node) if isinstance(each, ast.Call)})
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    while True:
        more = {name for name, called in functions if called & (METHODS.keys() | found)} - found
        if not more:
            return found
        found |= more


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) if name in METHODS:
            return name
        case ast.Name(id=name) if name not in METHODS:
            return name
    return ""


def _questions(source: str) -> Iterator[tuple[str, ast.expr, str]]:
    """The name of what is called, where it stands, and what stands there in the mutant."""
    tree = ast.parse(source)
    awaited = {node.value: node for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
                yield name, node, METHODS[name]
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                given = [ast.get_source_segment(source, each) for each in node.args]
                yield name, awaited.get(node, node), FUNCTIONS[name].format(*given)


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
