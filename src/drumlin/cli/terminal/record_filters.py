"""`--where`: conditions of records as options of a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from drumlin.client.read import conditions
from drumlin.client.read.conditions import Condition

HELP: Final = (
    "Show only records for which this is true. FIELD is key, value, value.NAME (of a JSON value; "
    "also value.NAME.NAME and value.0), header.NAME, partition or offset; the comparison is =, "
    "!=, <, <=, >, >= or ~ (contains); a FIELD alone must exist. Repeatable: all must be true."
)


def parse_conditions(typed: Sequence[str]) -> tuple[Condition, ...]:
    """Parse conditions as a user types them.

    Raises:
        click.BadParameter: a text is not a condition.
    """
    try:
        return conditions.parse_conditions(typed)
    except ValueError as error:
        raise click.BadParameter(f"--where: {error}") from None
