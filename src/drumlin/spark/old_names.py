"""Earlier names of functions and their arguments: still understood, with a DeprecationWarning."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from drumlin.client.other_names.deprecation import was_called

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def takes_bootstrap_servers(
    function: Callable[_Arguments, _Result],
) -> Callable[_Arguments, _Result]:
    """Make the function also accept its argument `bootstrap` by its earlier name."""

    @functools.wraps(function)
    def wrapper(*args: Any, **keywords: Any) -> _Result:
        if "bootstrap_servers" in keywords:
            if "bootstrap" in keywords:
                raise TypeError("bootstrap and bootstrap_servers are one argument: give the first")
            was_called("the argument bootstrap_servers", "bootstrap")
            keywords["bootstrap"] = keywords.pop("bootstrap_servers")
        return function(*args, **keywords)

    return wrapper
