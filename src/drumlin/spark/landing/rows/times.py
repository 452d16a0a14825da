"""Days and hours by which rows are partitioned, as columns and as parts of paths. Pure."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

import pyarrow as pa

from drumlin.spark.landing.rows.mode import Period

_DAY: Final = pa.field("day", pa.date32())
_HOUR: Final = pa.field("hour", pa.int32())
#: The partition columns of a table whose format has no partition transforms.
PERIOD_COLUMNS: Final[dict[Period | None, tuple[pa.Field, ...]]] = {
    None: (),
    "day": (_DAY,),
    "hour": (_DAY, _HOUR),
}
_EPOCH: Final = date(1970, 1, 1)
#: The range of days that dates can express; a record's timestamp may lie outside.
_FIRST: Final = (date.min - _EPOCH).days
_LAST: Final = (date.max - _EPOCH).days


def period_values(number: int | None, period: Period | None) -> dict[str, str | None]:
    """The values of the columns, as text, for the day or hour of this number since 1970.

    Null for times beyond the years 1 to 9999.
    """
    if period is None or number is None:
        return {}
    day, hour = (number, 0) if period == "day" else divmod(number, 24)
    if not _FIRST <= day <= _LAST:
        return dict.fromkeys((each.name for each in PERIOD_COLUMNS[period]), None)
    found: dict[str, str | None] = {"day": (_EPOCH + timedelta(days=day)).isoformat()}
    return found if period == "day" else {**found, "hour": str(hour)}
