"""The process's cache of schemas by id, which limits the requests to the registry.

An unknown id is looked up again, as it may be registered a moment later; the number of other
unknown ids does not affect the outcome. The rate of all lookups of unknown ids is limited, as
records may hold any number of such ids. A schema never changes, so it is kept until the cache is
full.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from drumlin.client.values.errors import UnknownSchema
from drumlin.client.values.registry import ID_MAX, RegisteredSchema, SchemaRegistry, schema_of_id

_SCHEMAS_MAX: Final = 1000
_UNKNOWN_MAX: Final = 10_000
#: The number of ids looked up together; none of these may be evicted meanwhile.
_IDS_AT_ONCE: Final = 1000
#: The minimum time before an unknown id is looked up again.
_AGAIN_S: Final = 0.5
#: The limits of lookups of unknown ids: a burst, and then a rate.
_MISSES_AT_ONCE: Final = 100
_MISSES_PER_S: Final = 10.0
_ROUNDING: Final = 1e-6


class Allowance:
    """A rate limit with a burst; times are in seconds of any clock."""

    def __init__(self, at_once: int, per_s: float, now_s: float) -> None:
        self._at_once = float(at_once)
        self._per_s = per_s
        self._left = self._at_once
        self._at_s = now_s

    def wait_s(self, now_s: float) -> float:
        """The time until a lookup is allowed; 0 if one is allowed now."""
        self._left = min(self._at_once, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        lacking = 1 - self._left
        return lacking / self._per_s if lacking > _ROUNDING else 0.0

    def take(self) -> None:
        """Count a lookup."""
        self._left -= 1


class _Miss(NamedTuple):
    """An unknown schema: the times of the first and last lookup, and the registry's message."""

    first_s: float
    last_s: float
    message: str


class SchemaCache:
    """The schemas of one registry, by id. Thread-safe, with one lookup at a time."""

    def __init__(
        self,
        registry: SchemaRegistry,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._sleep = sleep
        self._found: OrderedDict[int, RegisteredSchema] = OrderedDict()
        self._missed: OrderedDict[int, _Miss] = OrderedDict()
        self._misses = Allowance(_MISSES_AT_ONCE, _MISSES_PER_S, clock())
        self._lock = threading.Lock()

    def schemas(self, ids: Iterable[int]) -> dict[int, RegisteredSchema | UnknownSchema]:
        """The schema of each id, or the reason why there is none.

        Raises:
            UnknownSchema: the registry lacks one, and `unknown_ids_are_bad` is not set.
            RegistryError, RegistryUnavailable
        """
        found: dict[int, RegisteredSchema | UnknownSchema] = {}
        wanted = list(ids)
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            self._settle(wanted[start : start + _IDS_AT_ONCE], found)
        return found

    def _settle(
        self, ids: Sequence[int], found: dict[int, RegisteredSchema | UnknownSchema]
    ) -> None:
        while True:
            for schema_id in ids:
                if schema_id in found:
                    continue
                answer = self._answer(schema_id)
                if answer is not None:
                    found[schema_id] = answer
                elif not self._registry.unknown_ids_are_bad:
                    break  # this may end the reading: look up no others meanwhile
            if all(each in found for each in ids):
                return
            self._sleep(_AGAIN_S)

    def _answer(self, schema_id: int) -> RegisteredSchema | UnknownSchema | None:
        """A schema, or the reason why there is none; None while that may change."""
        if schema_id > ID_MAX:  # some registries fail on such an id
            return UnknownSchema(f"no schema has the id {schema_id}")
        while True:
            with self._lock:
                now_s = self._clock()
                found = self._found.get(schema_id)
                if found is not None:
                    self._found.move_to_end(schema_id)
                    return found
                miss = self._missed.get(schema_id)
                if miss is not None and now_s < miss.last_s + _AGAIN_S:
                    return self._judged(schema_id, miss)
                wait_s = self._misses.wait_s(now_s)
                if wait_s == 0:
                    return self._asked(schema_id, miss)
            self._sleep(wait_s)

    def _asked(self, schema_id: int, miss: _Miss | None) -> RegisteredSchema | UnknownSchema | None:
        try:
            found = schema_of_id(self._registry, schema_id)
        except UnknownSchema as error:
            self._misses.take()
            now_s = self._clock()
            miss = _Miss(now_s if miss is None else miss.first_s, now_s, str(error))
            self._missed[schema_id] = miss
            self._missed.move_to_end(schema_id)
            if len(self._missed) > _UNKNOWN_MAX:
                self._missed.popitem(last=False)
            return self._judged(schema_id, miss)
        self._missed.pop(schema_id, None)
        self._found[schema_id] = found
        if len(self._found) > _SCHEMAS_MAX:
            self._found.popitem(last=False)
        return found

    def _judged(self, schema_id: int, miss: _Miss) -> UnknownSchema | None:
        """The outcome for an unknown id; None while it may be registered later.

        Raises:
            UnknownSchema: the id is still unknown, and `unknown_ids_are_bad` is not set.
        """
        if 1000 * (miss.last_s - miss.first_s) < self._registry.patience_ms:
            return None
        if self._registry.unknown_ids_are_bad:
            return UnknownSchema(f"the schema registry has no schema {schema_id}")
        raise UnknownSchema(
            f"values were written with schema {schema_id}, which the registry does not have, even "
            f"after {self._registry.patience_ms / 1000:g} s: {miss.message}. If it "
            "was never registered, SchemaRegistry(url, unknown_ids_are_bad=True) makes such "
            "values bad records"
        )


@functools.lru_cache(maxsize=16)
def cache_of(registry: SchemaRegistry) -> SchemaCache:
    """The process's cache of a registry's schemas."""
    return SchemaCache(registry)
