"""The limit on the number of topics that one member of a group may name.

A group looks up all its topics in one turn of the loop whenever a subscription changes. A member
that needs more topics uses a pattern, or several members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

_NAMES_MAX: Final = 10_000


def check_named(names: Sequence[Any] | None) -> None:
    """
    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if names is not None and len(names) > _NAMES_MAX:
        message = f"a member can subscribe to {_NAMES_MAX} topics by their names"
        raise KafkaError(ErrorCode.invalid_request, message)
