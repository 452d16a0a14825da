"""Arrays that are null where the protocol has none: the schemas' parser lets them pass.

Apache Kafka closes the connection on such a request. Found here, no handler has to expect it.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from typing import Any

from drumlin.wire.errors import MalformedMessage

Check = Callable[[Any], None]


@functools.cache
def null_array_check(entity: Any) -> Check | None:
    """Raises MalformedMessage for an instance with such an array; None: it has no arrays."""
    checks = [
        (name, allows_null, _check_of_items(item)) for name, item, allows_null in _arrays(entity)
    ]
    if not checks:
        return None

    def check(message: Any) -> None:
        for name, allows_null, check_item in checks:
            value = getattr(message, name)
            if value is None:
                if not allows_null:
                    raise MalformedMessage(f"{entity.__name__}: {name} is null")
            elif check_item is not None:
                for each in value:
                    check_item(each)

    return check


def _check_of_items(item: Any) -> Check | None:
    return null_array_check(item) if hasattr(item, "__dataclass_fields__") else None


def _arrays(entity: Any) -> list[tuple[str, Any, bool]]:
    """Each array field with the type of its items, and whether it may be null."""
    found = []
    for name, hint in typing.get_type_hints(entity).items():
        allows_null = isinstance(hint, types.UnionType)
        array = typing.get_args(hint)[0] if allows_null else hint
        if typing.get_origin(array) is tuple:
            found.append((name, typing.get_args(array)[0], allows_null))
    return found
