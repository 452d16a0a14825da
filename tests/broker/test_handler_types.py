"""Requests have types in handlers: kio's classes, of the newest version that is served.

A request is of the version that the client has chosen. What only older versions have stands in a
class of theirs, imported under another name; what only newer ones have is asked for by `getattr`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from drumlin.broker import handlers
from drumlin.broker.served import SERVED

_FOLDER = Path(handlers.__path__[0])
_MODULE = re.compile(r"kio\.schema\.(\w+)\.v(\d+)\.request")


@pytest.mark.parametrize("api", SERVED)
def test_a_request_is_of_the_newest_version_that_is_served(api: str) -> None:
    tree = ast.parse((_FOLDER / f"{api}.py").read_text("utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (named := _MODULE.match(node.module or "")):
            named_plainly = [each.name for each in node.names if each.asname is None]
            found += [(named[1], int(named[2]))] if named_plainly else []
    if has_request(tree):
        assert found, "the type of its request is not known"
    assert all(each == (api, SERVED[api][1]) for each in found)


def has_request(tree: ast.Module) -> bool:
    """Whether a handler is given what the schemas make of a frame."""
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return not names & {"answer", "parse"}


@pytest.mark.parametrize("api", SERVED)
def test_no_request_may_be_anything(api: str) -> None:
    tree = ast.parse((_FOLDER / f"{api}.py").read_text("utf-8"))
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arg)]
    requests = [each for each in arguments if each.arg in ("request", "wanted", "topic")]
    assert not [
        f"{each.arg}, line {each.lineno}"
        for each in requests
        if isinstance(each.annotation, ast.Name) and each.annotation.id == "Any"
    ]
