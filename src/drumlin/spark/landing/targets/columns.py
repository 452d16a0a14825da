"""Compares an existing target with the rows to land in it: columns and periods."""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets.target import LandingRefused


def missing_columns(
    there: Mapping[str, object], wanted: Mapping[str, object], rows: Rows, where: str
) -> list[str]:
    """The columns to add to a table; its existing rows have null in them.

    Args:
        there, wanted: the type of each column, in the table's own terms.

    Raises:
        LandingRefused: a column has another type; or the table has values as bytes and the rows
            have typed columns, or the other way round.
    """
    missing = [name for name in wanted if name not in there]
    if not rows.is_typed and missing:
        raise LandingRefused(
            f"{where} has no column {missing[0]!r} of {wanted[missing[0]]}: it was changed, or was "
            "begun with typed columns"
        )
    if rows.is_typed and "value" in there and "value" not in wanted:
        raise LandingRefused(
            f"{where} was begun with values as bytes, and cannot go on with typed columns: land "
            "into another place"
        )
    for name, kind in wanted.items():
        if name in there and there[name] != kind:
            raise LandingRefused(
                f"{where} has a column {name!r} of {there[name]}, and rows have {kind} there now: "
                "land into another place, or give the schema that the table has"
            )
    return missing


def agreed_period(wanted: Period | None, held: Period | None, where: str) -> Period | None:
    """The period by which the rows of a target are partitioned.

    Raises:
        LandingRefused: `wanted` is not the period that the target was created with.
    """
    if wanted not in (None, held):
        raise LandingRefused(
            f"{where} is partitioned by {held}, and is to go on by {wanted}: a target stays as it "
            "was begun"
        )
    return held
