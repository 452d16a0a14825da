"""A user's function over the Arrow batches of a task: its pickled form, and checks of its results.

The function comes from the program that runs the query, and must be unpickled in the tasks only.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from drumlin.spark.options.portable import Portable

#: Takes an iterator of all batches of one task, and yields the results.
BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch | pa.Table]]


def pickled_text(function: BatchFunction) -> str:
    """The function as an option of a data source."""
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return base64.b64encode(dumps(function)).decode("ascii")


@dataclass(frozen=True, slots=True)
class Transform(Portable):
    """A pickled function for the tasks of a stream, and the schema of its results."""

    pickled: str
    schema_json: str

    def __repr__(self) -> str:
        return f"Transform({len(self.pickled)} characters)"

    def results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's results on a task's batches."""
        function = cloudpickle.loads(base64.b64decode(self.pickled))
        return results(function, batches, StructType.fromJson(json.loads(self.schema_json)))


def results(
    function: BatchFunction, batches: Iterator[pa.RecordBatch], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The function's results on a task's batches, converted to the types of `schema`.

    Raises:
        TypeError, ValueError: the function yielded something else.
    """
    expected = to_arrow_schema(schema, timezone="UTC")
    for result in function(batches):
        for batch in result.to_batches() if isinstance(result, pa.Table) else [result]:
            yield _fitting(batch, expected)


def _fitting(batch: pa.RecordBatch, expected: pa.Schema) -> pa.RecordBatch:
    """A result with exactly the columns and types that Spark expects.

    Raises:
        TypeError: the result is neither a batch nor a table.
        ValueError: the result lacks a column, or holds a value that cannot be converted.
    """
    if not hasattr(batch, "schema"):
        raise TypeError(f"the function must yield Arrow batches or tables, not {type(batch)}")
    missing = set(expected.names) - set(batch.schema.names)
    if missing:
        raise ValueError(
            f"the function's result lacks {', '.join(sorted(missing))}; it has "
            f"{', '.join(batch.schema.names) or 'no columns'}"
        )
    chosen = batch.select(expected.names)
    return chosen if chosen.schema.equals(expected) else chosen.cast(expected)
