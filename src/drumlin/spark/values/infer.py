"""The schema of JSON values, from a sample of a topic.

Nothing is guessed: where values contradict each other, the field is named.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

_logger = logging.getLogger(__name__)

_FIELDS_MAX: Final = 10_000
#: Where a schema is passed on to tasks, Python gives up a little above 100.
_DEPTH_MAX: Final = 64

#: The type of a value: a word, the fields of an object, the type of an array's items in a list;
#: None if only null was seen.
_Type: TypeAlias = "str | dict[str, _Type] | list[_Type] | None"


def infer_json_schema(
    spark: SparkSession, topic: str, *, bootstrap: str, sample: int = 1000, **options: object
) -> StructType:
    """The schema of the JSON objects in a topic, from about its last records, for `read_values`.

    Args:
        topic: a name, or several with commas between them.
        bootstrap: some of the brokers, as `host:port,…`.
        sample: how many records are looked at, those of all partitions together.
        options: those of `format("drumlin")`; one that says where to start is followed.

    Returns:
        The fields of all objects in the sample, in the order in which they were seen. Whole
            numbers are long, other ones double, a field of both is double; what is always null, or
            the item of arrays that are always empty, is string. Times stay text.

    Raises:
        SchemaError: a field has several types, or a name that is no text; no record of the sample
            is a JSON object; or an object has more than 10,000 fields, as one that is used as a
            map, or values are nested more than 64 deep.
        OptionError: the options are invalid.
    """
    from drumlin.spark.options.keyword_options import read_options
    from drumlin.spark.options.option_values import OptionError
    from drumlin.spark.options.options import SourceOptions
    from drumlin.spark.planning.cluster import Cluster

    if not isinstance(sample, int) or sample < 1:
        raise OptionError(f"sample={sample!r}: expected a whole number, at least 1")
    given = read_options(topic, bootstrap, options) | {"columns": "value"}
    checked = SourceOptions.parse(given)
    checked.check_batch()
    if checked.starting is None:
        partitions = len(Cluster(checked).partitions())
        given["startingoffsets"] = f"last {-(-sample // max(1, partitions))}"
    rows = spark.read.format("drumlin").options(**given).load().where("value IS NOT NULL")
    values = rows.select("value").limit(sample).collect()
    return json_schema_of(bytes(row.value) for row in values)


def json_schema_of(values: Iterable[bytes]) -> StructType:
    """The schema of these values, of which those that are no JSON objects are left out.

    Raises:
        SchemaError: as `infer_json_schema`.
    """
    from pyspark.sql import types

    from drumlin.client.values.errors import SchemaError

    found: _Type = None
    others = 0
    try:
        for value in values:
            parsed = _parsed(value)
            if isinstance(parsed, dict):
                found = _merged(found, _type_of(parsed, "value"), "value")
            else:
                others += 1
        if not isinstance(found, dict) or _is_empty(found):
            raise SchemaError(f"no fields were found: {others} records are no JSON objects")
        schema = types.StructType([types.StructField(*each) for each in _fields(found)])
    except RecursionError:
        raise SchemaError("the values are nested too deeply") from None
    if others:
        _logger.warning("%d records of the sample are no JSON objects", others)
    return schema


def _parsed(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _type_of(value: Any, path: str, depth: int = 1) -> _Type:
    from drumlin.client.values.errors import SchemaError

    if value is None:
        return None
    if depth > _DEPTH_MAX:
        raise SchemaError(f"{path:.100}…: more than {_DEPTH_MAX} levels of objects and arrays")
    if isinstance(value, dict):
        _check_names(value, path)
        inner = depth + 1
        return {name: _type_of(each, f"{path}.{name}", inner) for name, each in value.items()}
    if isinstance(value, list):
        item: _Type = None
        for each in value:
            item = _merged(item, _type_of(each, f"{path}[]", depth + 1), f"{path}[]")
        return [item]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise SchemaError(f"{path}: {value!s:.24} does not fit a long: name the type yourself")
    return {bool: "boolean", int: "long", float: "double", str: "string"}[type(value)]


def _check_names(names: Collection[str], path: str) -> None:
    """Check that an object's names can be those of columns."""
    from drumlin.client.values.errors import SchemaError

    _check_count(names, path)
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            why = "half of a surrogate pair is no text, and no name of a column"
            raise SchemaError(
                f"{path}.{name.encode(errors='backslashreplace').decode()}: {why}"
            ) from None


def _check_count(names: Collection[str], path: str) -> None:
    from drumlin.client.values.errors import SchemaError

    if len(names) > _FIELDS_MAX:
        raise SchemaError(f"{path}: more than {_FIELDS_MAX} fields: is it used as a map?")


def _merged(one: _Type, other: _Type, path: str) -> _Type:
    from drumlin.client.values.errors import SchemaError

    if one is None or other is None or one == other:
        return one or other
    if isinstance(one, dict) and isinstance(other, dict):
        names = dict.fromkeys([*one, *other])
        _check_count(names, path)
        return {name: _merged(one.get(name), other.get(name), f"{path}.{name}") for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0], f"{path}[]")]
    if {_word(one), _word(other)} == {"long", "double"}:
        return "double"
    raise SchemaError(f"{path} is {_word(one)} in some records and {_word(other)} in others")


def _word(type_: _Type) -> str:
    if isinstance(type_, str):
        return type_
    return "an object" if isinstance(type_, dict) else "an array"


def _spark_type(type_: _Type) -> DataType:
    from pyspark.sql import types

    if isinstance(type_, list):
        return types.ArrayType(_spark_type(type_[0]))
    if isinstance(type_, dict):
        return types.StructType([types.StructField(*each) for each in _fields(type_)])
    words: dict[str | None, DataType] = {
        "boolean": types.BooleanType(),
        "long": types.LongType(),
        "double": types.DoubleType(),
    }
    return words.get(type_, types.StringType())


def _fields(fields: dict[str, _Type]) -> Iterator[tuple[str, DataType]]:
    """The fields with their types; objects that are always empty have nothing to read."""
    for name, each in fields.items():
        if not _is_empty(each):
            yield name, _spark_type(each)


def _is_empty(type_: _Type) -> bool:
    if isinstance(type_, list):
        return _is_empty(type_[0])
    return isinstance(type_, dict) and all(map(_is_empty, type_.values()))
