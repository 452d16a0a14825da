"""Fields that our code gives to messages: each is one that some version of the message has.

A `Shape` refuses any other when it is called; here the calls are found that no test makes.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import drumlin
from rig.scripted_broker import DECLARED

_SOURCE = Path(drumlin.__file__).parent


class Given(NamedTuple):
    """Names that one call of a shape gives to a class."""

    where: str
    class_name: str
    fields: frozenset[str]


def _schemas() -> dict[str, set[str]]:
    """The fields of every class, in all messages and versions together."""
    found: dict[str, set[str]] = defaultdict(set)
    for api in DECLARED:
        for name, cls in vars(importlib.import_module(f"drumlin.wire.protocol.{api}")).items():
            if dataclasses.is_dataclass(cls):
                found[name] |= {field.name for field in dataclasses.fields(cls)}
    return found


def _given(path: Path) -> Iterator[Given]:
    """Calls such as `shape("ListOffsetsTopic", name=...)`, whatever the shape is called."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        callee = node.func.id if isinstance(node.func, ast.Name) else ""
        callee = node.func.attr if isinstance(node.func, ast.Attribute) else callee
        first = node.args[0]
        if callee.endswith("shape") and isinstance(first, ast.Constant):
            fields = frozenset(each.arg for each in node.keywords if each.arg)
            where = f"{path.relative_to(_SOURCE)}:{node.lineno}"
            yield Given(where, str(first.value), fields)


def test_every_field_that_is_given_exists() -> None:
    schemas = _schemas()
    calls = [each for path in sorted(_SOURCE.rglob("*.py")) for each in _given(path)]
    assert len(calls) > 200, "the calls are still recognised"
    unknown = {
        (each.where, each.class_name, field)
        for each in calls
        for field in each.fields - schemas[each.class_name]
    }
    assert not unknown
