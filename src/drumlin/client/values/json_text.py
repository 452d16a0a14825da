"""Decoded values as JSON: bytes as text if they are text, else as `{"base64": …}`."""

from __future__ import annotations

import base64
import json
from typing import Any


def json_text(value: Any, indent: int | None = None) -> str:
    """A JSON document; what JSON does not know, as dates and decimals, is text."""
    return json.dumps(value, indent=indent, default=_as_json, ensure_ascii=False)


def _bytes_as_json(data: bytes) -> str | dict[str, str]:
    """Bytes as text if they are text, else as `{"base64": …}`: nothing is lost either way."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_as_json(bytes(value))
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
