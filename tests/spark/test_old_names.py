"""Earlier names of functions and arguments: understood, and told to be old."""

from __future__ import annotations

from typing import Any

import pytest

import drumlin.spark
from drumlin.spark import changes, map_batches, read_values, restore, sink, snapshot
from drumlin.spark.options.option_values import OptionError

ADDRESS = "127.0.0.1:9"
SESSION: Any = None


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
