"""The functions of `drumlin.spark`: one form for all, and earlier names that are understood."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import drumlin.spark
from drumlin.spark import changes, map_batches, read_values, restore, sink, snapshot
from drumlin.spark.options.option_values import OptionError

ADDRESS = "127.0.0.1:9"
SESSION: Any = None
OLD = {"map_stream", "read_changes"}
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "spark.md"


@pytest.mark.parametrize("function", [snapshot, changes, restore, map_batches, read_values])
def test_what_reads_a_topic_takes_it_in_one_form(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    assert list(parameters)[:2] == ["spark", "topic"]
    assert parameters["bootstrap"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["bootstrap"].default is inspect.Parameter.empty
    if "stream" in parameters:
        assert parameters["stream"].default is False
        assert parameters["stream"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", sorted({*drumlin.spark.__all__} - OLD))
def test_a_function_says_what_it_gives_and_is_in_the_reference(name: str) -> None:
    function = getattr(drumlin.spark, name)
    told = inspect.getdoc(function) or ""
    if function.__annotations__.get("return") == "DataFrame":  # an error has no signature
        assert "\nReturns:\n" in told
        assert "\nRaises:\n" in told
    assert f"::: {function.__module__}.{name}\n" in REFERENCE.read_text("utf-8")


@pytest.mark.parametrize("more", [{}, {"stream": True}])
def test_changes_have_columns_of_their_own(more: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="'columns' does not go with"):
        changes(SESSION, "t", bootstrap=ADDRESS, columns=["key"], **more)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"task_memory": 1000, "taskMemory": 2000}, "'taskMemory' is given twice"),
        ({"allow_inexact": True, "allowInexact": False}, "'allowInexact' is given twice"),
        ({"reducers": 0}, "'reducers': must be positive, not 0"),
        ({"pushFilter": True}, "did you mean 'pushFilters'"),
        ({"sinkId": "mine"}, "only a sink has it"),
        ({"stream": True}, "there is no option 'stream'"),
    ],
)
def test_options_of_a_state_that_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        snapshot(SESSION, "t", bootstrap=ADDRESS, **options)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (snapshot, (SESSION, "t")),
        (changes, (SESSION, "t", "earliest")),
        (restore, (SESSION, "t", "u")),
        (map_batches, (SESSION, "t", iter, "id int")),
        (read_values, (SESSION, "t", "id int")),
        (sink, ("t",)),
    ],
)
def test_bootstrap_servers_is_bootstrap(function: Any, arguments: tuple[Any, ...]) -> None:
    told = pytest.warns(DeprecationWarning, match="argument bootstrap_servers is now bootstrap")
    with told as warnings, pytest.raises(OptionError, match="nosuch"):
        function(*arguments, bootstrap_servers=ADDRESS, noSuch=1)
    assert warnings[0].filename == __file__
    with pytest.raises(TypeError, match="are one argument"):
        function(*arguments, bootstrap_servers=ADDRESS, bootstrap=ADDRESS)
    with pytest.raises(TypeError, match="'bootstrap'"):
        function(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "new"),
    [
        ("map_stream", ("t", iter, "id int"), r"map_batches\(…, stream=True\)"),
        ("read_changes", ("t",), r"changes\(…, stream=True\)"),
    ],
)
def test_a_stream_is_an_argument(name: str, arguments: tuple[Any, ...], new: str) -> None:
    function = getattr(drumlin.spark, name)
    told = pytest.warns(DeprecationWarning, match=new)
    with told as warnings, pytest.raises(OptionError, match="nosuch"):
        function(SESSION, *arguments, bootstrap=ADDRESS, noSuch=1)
    assert warnings[0].filename == __file__
