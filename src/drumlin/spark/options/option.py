"""One option of the data source, with everything that defines it, as a row.

The rows are in `client_rows.py`, `source_rows.py` and `sink_rows.py`. They are used to parse a
query's options, to refuse unknown names, and to generate the tables in the documents. So a
property of an option belongs in its row, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from drumlin.spark.options.option_values import OptionError, parsed

#: The queries that an option is for: reads of records, of a state from a log, or writes.
Direction: TypeAlias = Literal["source", "state", "sink"]
READS: Final[tuple[Direction, ...]] = ("source", "state")
STATES: Final[tuple[Direction, ...]] = ("state",)
WRITES: Final[tuple[Direction, ...]] = ("sink",)
ALL: Final[tuple[Direction, ...]] = ("source", "state", "sink")

#: Why a state from a log refuses an option of the source.
IT_IS_NO_STREAM: Final = "it is not a stream"

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Option(Generic[_Value]):
    """One option.

    Attributes:
        name: as the documents spell it; Spark hands names over in lower case.
        parse: converts the text; raises a ValueError that says what is expected.
        meaning: a sentence for the documents; "" if no user writes this option.
        default: as a user would write it; None: without the option there is no value.
        shown: what the documents show as the default, if not the text itself.
        directions: the queries that the option is for.
        not_of_states: why a state from a log refuses it although other reads have it.
        keyword: the argument of `drumlin.connect` that it sets.
        exactly_once: only for exactly-once delivery; otherwise refused.
    """

    name: str
    parse: Callable[[str], _Value]
    meaning: str
    default: str | None = None
    shown: str = ""
    directions: tuple[Direction, ...] = READS
    not_of_states: str = ""
    keyword: str = ""
    exactly_once: bool = False

    @property
    def key(self) -> str:
        """The name as Spark hands it over."""
        return self.name.lower()

    def is_in(self, options: Mapping[str, str]) -> bool:
        """Whether the user has set it."""
        return self.key in options

    def find(self, options: Mapping[str, str]) -> _Value | None:
        """The value; None if the option is not given and has no default.

        Raises:
            OptionError: its text is invalid.
        """
        text = options.get(self.key, self.default)
        return None if text is None else parsed(self.name, text, self.parse)

    def value(self, options: Mapping[str, str]) -> _Value:
        """The value of an option that has a default or must be given.

        Raises:
            OptionError: its text is invalid, or it is missing.
        """
        value = self.find(options)
        if value is None:
            raise OptionError(f"option '{self.name}' must be specified")
        return value


def rows_among(names: Mapping[str, object]) -> tuple[Option[Any], ...]:
    """All rows that a module defines, in its order."""
    return tuple(each for each in names.values() if isinstance(each, Option))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An option of Kafka's clients that contradicts how a source or a sink works.

    Attributes:
        why: the reason, with the option to use instead, if there is one.
    """

    name: str
    why: str
