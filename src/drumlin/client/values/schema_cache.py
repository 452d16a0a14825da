"""Schemas by id, remembered by the process: what is asked of the registry, and how often.

An id that the registry does not have is asked for again only after a while, and all such ids
together only so often: records may hold any number of them. A schema never changes, so what was
found is kept until there is no more room.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from typing import Final

from drumlin.client.values.errors import UnknownSchema
from drumlin.client.values.registry import (
    ID_MAX,
    RegisteredSchema,
    SchemaRegistry,
    schema_of_id,
)

_SCHEMAS_MAX: Final = 1000
_UNKNOWN_MAX: Final = 10_000
_UNKNOWN_FOR_S: Final = 60.0
#: Of unknown ids: so many at once, and later so many a second.
_MISSES_AT_ONCE: Final = 100
_MISSES_PER_S: Final = 10.0


class Allowance:
    """So many at once, and so many a second; times are given in seconds of any clock."""

    def __init__(self, at_once: int, per_s: float, now_s: float) -> None:
        self._at_once = float(at_once)
        self._per_s = per_s
        self._left = self._at_once
        self._at_s = now_s

    def is_left(self, now_s: float) -> bool:
        """Whether there is one left."""
        self._left = min(self._at_once, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return self._left >= 1

    def take(self) -> None:
        """Use one up."""
        self._left -= 1


class SchemaCache:
    """The schemas of one registry, by id. Threads may share it; they ask one after another."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._found: OrderedDict[int, RegisteredSchema] = OrderedDict()
        self._unknown_until_s: OrderedDict[int, float] = OrderedDict()
        self._misses = Allowance(_MISSES_AT_ONCE, _MISSES_PER_S, time.monotonic())
        self._lock = threading.Lock()

    def schema(self, schema_id: int) -> RegisteredSchema:
        """
        Raises:
            UnknownSchema: the registry does not have it, or said so a short while ago, or so many
                ids were unknown of late that it was not asked.
            RegistryError, RegistryUnavailable
        """
        with self._lock:
            found = self._found.get(schema_id)
            if found is not None:
                self._found.move_to_end(schema_id)
                return found
            self._refuse_what_is_unknown(schema_id)
            try:
                found = schema_of_id(self._registry, schema_id)
            except UnknownSchema:
                self._miss(schema_id)
                raise
            self._found[schema_id] = found
            if len(self._found) > _SCHEMAS_MAX:
                self._found.popitem(last=False)
            return found

    def _refuse_what_is_unknown(self, schema_id: int) -> None:
        now_s = time.monotonic()
        if schema_id > ID_MAX:  # some registries have no answer to that but an error
            raise UnknownSchema(f"no schema has the id {schema_id}")
        if self._unknown_until_s.get(schema_id, 0) > now_s:
            raise UnknownSchema(f"the schema registry has no schema {schema_id}")
        if not self._misses.is_left(now_s):
            raise UnknownSchema(
                f"schema {schema_id} was not asked for: of late too many ids were unknown"
            )

    def _miss(self, schema_id: int) -> None:
        self._misses.take()
        self._unknown_until_s[schema_id] = time.monotonic() + _UNKNOWN_FOR_S
        self._unknown_until_s.move_to_end(schema_id)
        if len(self._unknown_until_s) > _UNKNOWN_MAX:
            self._unknown_until_s.popitem(last=False)


@functools.lru_cache(maxsize=16)
def cache_of(registry: SchemaRegistry) -> SchemaCache:
    """The process's cache of a registry's schemas."""
    return SchemaCache(registry)
