"""Converts the keyword options of a function to the form that Spark passes to a data source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drumlin.spark.options.client_rows import BOOTSTRAP
from drumlin.spark.options.option import Direction, Option
from drumlin.spark.options.option_names import check_keywords
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.source_rows import SUBSCRIBE


def as_text(
    bootstrap: str, options: Mapping[str, object], *directions: Direction
) -> dict[str, str]:
    """The options as text, with names in lower case, including the brokers.

    An option that is None counts as not given.

    Raises:
        OptionError: an option is unknown, or belongs to another direction.
    """
    check_keywords(options, *directions)
    given = {name.lower(): _text(each) for name, each in options.items() if each is not None}
    return _with_argument(given, BOOTSTRAP, bootstrap, "bootstrap")


def read_options(
    topic: str, bootstrap: str, options: Mapping[str, object], direction: Direction = "source"
) -> dict[str, str]:
    """The options as text, like `as_text`, including the topic that is read.

    Raises:
        OptionError: an option is unknown, or is not for reading.
    """
    return _with_argument(as_text(bootstrap, options, direction), SUBSCRIBE, topic, "topic")


def with_keywords(
    options: Mapping[str, object], keywords: Mapping[Option[Any], object]
) -> dict[str, object]:
    """The options, merged with a function's own keyword arguments; None means not given.

    Raises:
        OptionError: an option is given in both ways.
    """
    given = {name.lower() for name in options}
    found = {row.name: each for row, each in keywords.items() if row.key not in given}
    for row, value in keywords.items():
        if row.key in given and value is not None and _text(value) != row.default:
            raise OptionError(f"option '{row.name}' is given twice, in two spellings of its name")
    return {**options, **found}


def _with_argument(
    options: dict[str, str], row: Option[Any], value: str, argument: str
) -> dict[str, str]:
    if options.get(row.key, value) != value:
        raise OptionError(
            f"option '{row.name}' and the argument {argument} are one setting, and differ"
        )
    return {**options, row.key: value}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
