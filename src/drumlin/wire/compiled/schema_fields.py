"""Which fields a class of a message has, in any version of it, by the text of kio's schemas.

Read as text, as importing a module for each version takes tens of milliseconds and memory for good.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import kio.schema

SCHEMAS: Final = Path(next(iter(kio.schema.__path__)))
_CLASS: Final = re.compile(r"^class (\w+):\n((?:    .*\n|\n)*)", re.MULTILINE)
_FIELD: Final = re.compile(r"^    (\w+): (?!ClassVar)", re.MULTILINE)


def classes_in(schema: Path) -> dict[str, frozenset[str]]:
    """The classes that one file of the schemas defines, by name, with their fields."""
    found = _CLASS.findall(schema.read_text("utf-8"))
    return {name: frozenset(_FIELD.findall(body)) for name, body in found}


@functools.cache
def fields_of_all_versions(api_name: str, kind: str) -> Mapping[str, frozenset[str]]:
    """The fields of each class of the requests or responses (`kind`), of all versions together.

    Blocks: for a millisecond or two, and only once.
    """
    found: dict[str, frozenset[str]] = {}
    for schema in SCHEMAS.glob(f"{api_name}/v*/{kind}.py"):
        for name, fields in classes_in(schema).items():
            found[name] = found.get(name, frozenset()) | fields
    return found
