"""Keys and values that begin with a schema id, decoded by the schemas of a registry.

Bounded: few unknown ids are asked for at once, as records may hold any number of them; a schema
that failed is left alone for some time; no field of more than a limit is decoded.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from drumlin.client.values.errors import RegistryError, RegistryUnavailable, UnknownSchema
from drumlin.client.values.framed_values import FramedValues
from drumlin.client.values.framing import HEADER_SIZE, payloads
from drumlin.client.values.json_text import json_text
from drumlin.client.values.registry import RegisteredSchema, SchemaRegistry
from drumlin.client.values.schema_cache import cache_of
from drumlin.console.answers.by_schema import is_framed

_FIELD_BYTES_MAX: Final = 1 << 20
_NEW_IDS_AT_ONCE: Final = 20
_IDS_MAX: Final = 1_000
_AGAIN_S: Final = 30.0
_REGISTRY_AGAIN_S: Final = 5.0
_REGISTRY_TIMEOUT_MS: Final = 3_000

_Decoded: TypeAlias = tuple[dict[int, Any], dict[int, str]]


class RegisteredFields:
    """The decoder of one registry."""

    def __init__(
        self, registry: SchemaRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = dataclasses.replace(
            registry,
            timeout_ms=min(registry.timeout_ms, _REGISTRY_TIMEOUT_MS),
            patience_ms=0,
            unknown_ids_are_bad=True,
        )
        self._clock = clock
        self._values = FramedValues(self._registry)
        self._schemas: dict[int, RegisteredSchema] = {}
        self._failed: dict[int, tuple[float, str]] = {}  # until when, and why
        self._down: tuple[float, str] = (float("-inf"), "")

    def shown(self, fields: Sequence[bytes], cut_bytes: int) -> list[dict[str, Any]]:
        """Each field's `text` as JSON and its `schema_id`, or the `error`."""
        values, reasons = self.decoded(fields)
        return [
            self._shown(field, values, reasons.get(index), index, cut_bytes)
            for index, field in enumerate(fields)
        ]

    def _shown(
        self,
        field: bytes,
        values: dict[int, Any],
        reason: str | None,
        index: int,
        cut_bytes: int,
    ) -> dict[str, Any]:
        if index not in values:
            return {"error": reason or "not decoded"}
        schema_id = _id(field)
        try:
            schema = self._schemas.get(schema_id)
            if schema is not None and schema.kind == "JSON":  # as it was written
                text = field[HEADER_SIZE:].decode()
            else:
                text = json_text(values[index])
        except (ValueError, RecursionError) as error:
            return {"error": f"schema {schema_id}: {error}"}
        return {"text": text[:cut_bytes], "schema_id": schema_id, "is_cut": len(text) > cut_bytes}

    def decoded(self, fields: Sequence[bytes]) -> _Decoded:
        """Values by index, and the reasons for those that cannot be decoded."""
        values: dict[int, Any] = {}
        reasons: dict[int, str] = {}
        by_id: dict[int, list[int]] = {}
        for index, field in enumerate(fields):
            if not is_framed(field):
                reasons[index] = "no schema id"
            elif len(field) > _FIELD_BYTES_MAX:
                reasons[index] = f"more than {_FIELD_BYTES_MAX} bytes: too large to be decoded here"
            else:
                by_id.setdefault(_id(field), []).append(index)
        left = _NEW_IDS_AT_ONCE
        for schema_id, indexes in by_id.items():
            is_asked = self._is_asked(schema_id)
            left -= is_asked
            if left < 0 and is_asked:
                reasons |= dict.fromkeys(indexes, "too many schema ids at once")
                continue
            why = self._why_not(schema_id)
            if why is None:
                why = self._decode(schema_id, fields, indexes, values, reasons)
            if why is not None:
                reasons |= dict.fromkeys(indexes, why)
        return values, reasons

    def _is_asked(self, schema_id: int) -> bool:
        """Whether the registry would be asked for a schema now."""
        until, _ = self._failed.get(schema_id, (float("-inf"), ""))
        return schema_id not in self._schemas and until <= self._clock()

    def _why_not(self, schema_id: int) -> str | None:
        """Why there is no schema of this id, or it is left alone for now."""
        now = self._clock()
        until, why = self._failed.get(schema_id, (now, ""))
        if until > now:
            return why
        if schema_id in self._schemas:
            return None
        if self._down[0] > now:
            return self._down[1]
        try:
            found = cache_of(self._registry).schemas([schema_id])[schema_id]
        except RegistryUnavailable as error:
            self._down = (self._clock() + _REGISTRY_AGAIN_S, str(error))
            return str(error)
        except RegistryError as error:
            return self._note(schema_id, str(error))
        if isinstance(found, UnknownSchema):
            return self._note(schema_id, str(found))
        if len(self._schemas) >= _IDS_MAX:
            self._schemas.pop(next(iter(self._schemas)))
        self._schemas[schema_id] = found
        return None

    def _note(self, schema_id: int, why: str) -> str:
        self._failed.pop(schema_id, None)
        if len(self._failed) >= _IDS_MAX:
            self._failed.pop(next(iter(self._failed)))
        self._failed[schema_id] = (self._clock() + _AGAIN_S, why)
        return why

    def _decode(
        self,
        schema_id: int,
        fields: Sequence[bytes],
        indexes: list[int],
        values: dict[int, Any],
        reasons: dict[int, str],
    ) -> str | None:
        """Decode the fields of one schema, or return what is wrong with it."""
        column = pa.array([fields[index] for index in indexes], pa.large_binary())
        try:
            found, missing = self._values.decoded(payloads(column))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a stranger's schema does
            return self._note(schema_id, f"schema {schema_id}: {error or type(error).__name__}")
        values |= {indexes[row]: value for row, value in found.items()}
        reasons |= {indexes[row]: reason for row, reason in missing.items()}
        return None


def _id(field: bytes) -> int:
    return int.from_bytes(field[1:HEADER_SIZE], "big")
