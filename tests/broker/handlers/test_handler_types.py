"""Requests and answers have types in handlers: the declared messages of their own API."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from broker.handlers.all_handlers import HANDLERS
from drumlin.broker import handlers
from drumlin.broker.apis.first_use import handler_module
from drumlin.broker.apis.served import SERVED

#: Groups of two versions, of which one names topics by id, the other by name.
_ANYTHING = {"offset_fetch.py::_unlike"}
_FOLDER = Path(handlers.__path__[0])


@pytest.mark.parametrize("api", SERVED)
def test_messages_are_those_of_the_api(api: str) -> None:
    tree = ast.parse((_FOLDER / f"{api}.py").read_text("utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    declared = {each for each in modules if each.startswith("drumlin.wire.protocol")}
    own = f"drumlin.wire.protocol.{api}"
    if has_request(tree):
        assert own in declared, "the type of its request is not known"
    assert declared <= {own}


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
