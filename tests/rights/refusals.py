"""The error codes of an answer, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drumlin.wire.error_codes import ErrorCode
from rig.data.messages import render


def refusals(answer: Any) -> set[int]:
    """All error codes but 0."""
    return {code for code in _codes(render(answer)) if code}


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for each in value:
            yield from _codes(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name.endswith("error_code"):
                yield ErrorCode[each].value if isinstance(each, str) else each
            yield from _codes(each)
