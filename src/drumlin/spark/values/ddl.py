"""The types of JSON values as DDL, `id long, tags array<string>`, without a running Spark.

The grammar is Spark's own, for the types that JSON can be decoded into.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from drumlin.client.values.errors import SchemaError

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql.types import DataType, StructType

_TOKEN: Final = re.compile(
    r"""\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<word>\w+)|(?P<sign>[<>(),:])
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<end>\Z))""",
    re.VERBOSE,
)
_NAMES: Final = {
    "BooleanType": ("boolean",),
    "ByteType": ("tinyint", "byte"),
    "ShortType": ("smallint", "short"),
    "IntegerType": ("int", "integer"),
    "LongType": ("bigint", "long"),
    "FloatType": ("float", "real"),
    "DoubleType": ("double",),
    "StringType": ("string",),
    "DateType": ("date",),
    "TimestampType": ("timestamp", "timestamp_ltz"),
    "TimestampNTZType": ("timestamp_ntz",),
}
_DECIMAL: Final = ("decimal", "dec", "numeric")
_DIGITS_MAX: Final = 38
_NESTED: Final = ("array", "map", "struct")


def struct_of(ddl: str) -> StructType:
    """The columns that DDL names.

    Raises:
        SchemaError: the text is not DDL, or a type is unknown; the message names the column.
    """
    try:
        return _Parser(ddl).columns()
    except SchemaError as error:
        raise SchemaError(f"{ddl!r}: {error}") from None
    except RecursionError:
        raise SchemaError("its types are nested too deeply") from None


class _Parser:
    def __init__(self, ddl: str) -> None:
        import pyspark.sql.types

        self._types: Any = pyspark.sql.types
        self._atomic: dict[str, Callable[..., DataType]] = {
            name: getattr(self._types, kind) for kind, names in _NAMES.items() for name in names
        }
        self._ddl = ddl
        self._at = 0
        self._advance()

    def columns(self) -> StructType:
        fields = self._fields("")
        if self._next.lastgroup != "end":
            raise self._unexpected("a comma and the next column")
        return fields

    def _fields(self, path: str) -> StructType:
        fields: list[Any] = []
        while not fields or self._takes(","):
            name = self._name()
            self._takes(":")
            kind = self._type(path + name)
            is_nullable = not (self._takes("not") and self._expects("null"))
            if self._takes("comment"):
                self._expects_text()
            fields.append(self._types.StructField(name, kind, is_nullable))
        found: StructType = self._types.StructType(fields)
        return found

    def _type(self, column: str) -> DataType:
        name = self._next["word"] or ""
        self._advance_if(name, f"the type of {column!r}")
        lowered = name.lower()
        found: DataType
        if lowered == "array":
            self._expects("<")
            found = self._types.ArrayType(self._type(f"{column}[]"))
        elif lowered == "map":
            self._expects("<")
            key = self._type(f"{column}[]")
            self._expects(",")
            found = self._types.MapType(key, self._type(f"{column}[]"))
        elif lowered == "struct":
            self._expects("<")
            found = self._fields(f"{column}.")
        elif lowered in self._atomic:
            return self._atomic[lowered]()
        elif lowered in _DECIMAL:
            return self._decimal(column)
        else:
            known = ", ".join(sorted([*self._atomic, *_DECIMAL, *_NESTED]))
            raise SchemaError(f"{column!r} has the unknown type {name!r}; there are {known}")
        self._expects(">")
        return found

    def _decimal(self, column: str) -> DataType:
        precision, scale = 10, 0
        if self._takes("("):
            precision = self._number()
            scale = self._number() if self._takes(",") else 0
            self._expects(")")
        if not 1 <= precision <= _DIGITS_MAX or scale > precision:
            raise SchemaError(
                f"{column!r} is decimal({precision},{scale}): there are 1 to {_DIGITS_MAX} digits, "
                "and no more behind the point"
            )
        found: DataType = self._types.DecimalType(precision, scale)
        return found

    def _number(self) -> int:
        digits = self._next["word"] or ""
        self._advance_if(digits.isdecimal(), "a number")
        return int(digits)

    def _name(self) -> str:
        name: str = self._next["word"] or (self._next["quoted"] or "").replace("``", "`")
        self._advance_if(name, "the name of a column")
        return name

    def _expects_text(self) -> None:
        self._advance_if(self._next["text"], "a text in quotes")

    def _expects(self, wanted: str) -> bool:
        if not self._takes(wanted):
            raise self._unexpected(repr(wanted.upper()))
        return True

    def _takes(self, wanted: str) -> bool:
        is_next = (self._next["word"] or self._next["sign"] or "").lower() == wanted
        if is_next:
            self._advance()
        return is_next

    def _advance_if(self, is_right: object, wanted: str) -> None:
        if not is_right:
            raise self._unexpected(wanted)
        self._advance()

    def _advance(self) -> None:
        found = _TOKEN.match(self._ddl, self._at)
        if found is None:
            raise SchemaError(f"{self._ddl[self._at :].strip()[:20]!r} was not expected")
        self._next, self._at = found, found.end()

    def _unexpected(self, wanted: str) -> SchemaError:
        there = self._next.group().strip()
        return SchemaError(f"expected {wanted}, not {there!r}" if there else f"lacks {wanted}")
