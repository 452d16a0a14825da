"""`drumlin.aio` has the calls of the synchronous client: names, parameters and documentation."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import drumlin
from drumlin import aio
from drumlin.client.deprecated_calls import DeprecatedCalls

#: What has another form with asyncio: `asyncio.create_task` begins a call without waiting for it.
_OTHERWISE = {"commit_async", "commit_offsets_async", "table", "table_async"}
#: Deprecated: they are in `drumlin.lowlevel`.
_DEPRECATED = {*vars(DeprecatedCalls), "stream_appender", "detach", "following"}
#: Attributes of an object, and what only a client's end calls.
_INSTANCE = {"bootstrap", "options", "give_up"}

_PAIRS = [
    (drumlin.Client, aio.Client),
    (drumlin.Consumer, aio.Consumer),
    (drumlin.Writer, aio.Writer),
    (drumlin.Transaction, aio.Transaction),
]


def _public(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def _parameters(call: Any) -> list[tuple[str, Any, Any]]:
    own = inspect.signature(call, follow_wrapped=False)
    if any(each.kind is each.VAR_KEYWORD for each in own.parameters.values()):
        own = inspect.signature(call)  # it passes on what it gets
    return [(each.name, each.kind, each.default) for each in own.parameters.values()]


@pytest.mark.parametrize(("sync", "other"), _PAIRS, ids=lambda kind: kind.__name__)
def test_names_parameters_and_documentation(sync: type, other: type) -> None:
    calls, others = _public(sync), _public(other)
    assert others.keys() - _INSTANCE == calls.keys() - _OTHERWISE - _DEPRECATED - _INSTANCE
    for name in calls.keys() & others.keys():
        if isinstance(calls[name], property):
            assert isinstance(others[name], property), name
        elif name != "close" or sync is not drumlin.Client:
            assert _parameters(others[name]) == _parameters(calls[name]), name
            assert others[name].__doc__ == calls[name].__doc__, name


def test_connect() -> None:
    assert _parameters(aio.connect) == _parameters(drumlin.connect)
    assert aio.connect.__doc__ == drumlin.connect.__doc__


def test_what_waits_is_awaited() -> None:
    """Plain calls are those that neither ask a broker nor wait."""
    plain = {"positions", "group_metadata", "seek", "pause", "resume", "lag"}
    given_back = {"consumer", "writer", "transaction"}  # awaited, or used in an `async with`
    iterated = {"read_batches", "read_records", "read_range", "snapshot_batches"}
    for _, kind in _PAIRS:
        for name, call in _public(kind).items():
            if not isinstance(call, property) and name not in plain | given_back | iterated:
                assert inspect.iscoroutinefunction(call), name
