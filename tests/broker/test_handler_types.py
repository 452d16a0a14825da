"""Requests and answers have types in handlers: kio's classes, of the newest version served.

A request is of the version that the client has chosen. What only older versions have stands in a
class of theirs, imported under another name; what only newer ones have is asked for by `getattr`.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from broker.all_handlers import HANDLERS
from drumlin.broker import handlers
from drumlin.broker.apis.first_use import handler_module
from drumlin.broker.apis.served import SERVED

#: Groups of two versions, of which one names topics by id, the other by name.
_ANYTHING = {"offset_fetch.py::_unlike"}
_FOLDER = Path(handlers.__path__[0])
_KIO = re.compile(r"kio\.schema\.(\w+)\.v(\d+)\.(request|response)")


@pytest.mark.parametrize("api", SERVED)
def test_a_message_is_of_the_newest_version_that_is_served(api: str) -> None:
    tree = ast.parse((_FOLDER / f"{api}.py").read_text("utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (named := _KIO.match(node.module or "")):
            named_plainly = [each.name for each in node.names if each.asname is None]
            found += [(named[1], int(named[2]), named[3])] if named_plainly else []
    newest = (api, SERVED[api][1])
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if has_request(tree) and f"drumlin.wire.protocol.{api}" not in modules:
        assert (*newest, "request") in found, "the type of its request is not known"
    assert all(each[:2] == newest for each in found)


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


@pytest.mark.parametrize("api", SERVED)
def test_no_answer_may_be_anything(api: str) -> None:
    tree = ast.parse((_FOLDER / f"{api}.py").read_text("utf-8"))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = {
        f"{api}.py::{each.name}"
        for each in functions
        for node in ast.walk(each.returns or ast.Name("Any"))
        if isinstance(node, ast.Name) and node.id == "Any"
    }
    assert found <= _ANYTHING


def test_a_handler_is_a_coroutine() -> None:
    """Or reads and writes frames, where records are in them."""
    modules = {api: handler_module(api) for api in SERVED}
    by_hand = {api for api, module in modules.items() if hasattr(module, "answer")}
    assert by_hand == {"produce", "fetch"}
    assert all(inspect.iscoroutinefunction(modules[api].handle) for api in SERVED.keys() - by_hand)


def test_mypy_looks_at_all_handlers() -> None:
    handled = {api for api in SERVED if hasattr(handler_module(api), "handle")}
    assert {each.__module__.rpartition(".")[2] for each in HANDLERS} == handled
