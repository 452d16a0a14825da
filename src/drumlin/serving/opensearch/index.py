"""The requests to an index of documents. Decides nothing about terms."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from drumlin.serving.opensearch.connection import Busy, OpenSearchConnection, Unclear, reason
from drumlin.serving.opensearch.documents import OURS
from drumlin.serving.target import TargetRefused

#: The index of positions, in addition to those of documents.
POSITIONS: Final = "drumlin_positions"
_EXISTS: Final = "resource_already_exists_exception"
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_BAD_REQUEST: Final = 400
_TOO_LARGE: Final = 413
_DURABLE: Final = "request"
_SETTINGS: Final = {"index": {"translog.durability": _DURABLE}}
_MAPPING: Final = {
    "properties": {
        OURS: {
            "dynamic": "strict",
            "properties": {
                "partition": {"type": "integer"},
                "version": {"type": "long"},
                "value": {"type": "text"},
                "bytes": {"type": "binary"},
            },
        }
    }
}


class Stored(NamedTuple):
    """A stored position document, and the sequence number and term that an update must name."""

    body: dict[str, Any]
    seq_no: int
    primary_term: int


class Write(NamedTuple):
    """A document to put, or to delete if `document` is None."""

    id: str
    version: int
    document: str | None


class OpenSearchIndex:
    """The documents of a topic."""

    def __init__(self, connection: OpenSearchConnection, name: str) -> None:
        self.name = name
        self._connection = connection
        self._path = _path(name)

    def prepare(self) -> None:
        """Create the index, and the index of positions, unless they exist, and check them.

        Raises:
            TargetRefused: an index cannot be used; the message says why.
        """
        ask = self._connection.ask
        for name, mapping in ((POSITIONS, {"enabled": False}), (self.name, _MAPPING)):
            path = _path(name)
            answer = ask("GET", path)
            if answer.status == _NOT_FOUND:
                answer = ask("PUT", path, {"settings": _SETTINGS, "mappings": mapping})
            elif answer.is_right and mapping is _MAPPING:
                answer = ask("PUT", f"{path}/_mapping", mapping)
            if not answer.is_right and reason(answer.body).partition(":")[0] != _EXISTS:
                raise TargetRefused(f"OpenSearch: index {name!r}: {reason(answer.body)}")
            durability = self._settings(name).get("index.translog.durability")
            if durability != _DURABLE:
                raise TargetRefused(
                    f"OpenSearch: index {name!r} may lose documents in a crash, and keep their "
                    f"positions: set index.translog.durability to {_DURABLE!r}, not {durability!r}"
                )

    def uuid(self) -> str:
        """The index's id, which differs from that of a later index of this name; "" without one."""
        return str(self._settings(self.name).get("index.uuid", ""))

    def _settings(self, name: str) -> dict[str, Any]:
        asked = f"{_path(name)}/_settings?flat_settings&include_defaults"
        answer = self._connection.ask("GET", asked)
        if answer.status == _NOT_FOUND:
            return {}
        found = self._connection.check(answer)
        if list(found) != [name]:
            raise TargetRefused(
                f"OpenSearch: {name!r} is an alias of {', '.join(found)}; name an index"
            )
        return {**found[name].get("defaults", {}), **found[name]["settings"]}

    # -- documents -------------------------------------------------------------------------

    def versions(self, ids: Collection[str]) -> dict[str, int]:
        """The versions of the documents that exist."""
        asked = {"ids": list(ids)}
        answer = self._connection.ask("POST", f"{self._path}/_mget?_source=false", asked)
        found = self._connection.check(answer)["docs"]
        for each in found:
            if "error" in each:
                raise OSError(f"OpenSearch: index {self.name!r}: {reason(each)}")
        return {each["_id"]: each["_version"] for each in found if each["found"]}

    def write(self, writes: Sequence[Write]) -> list[Write]:
        """Send writes once; returns those that were refused because a newer document exists.

        Raises:
            TargetRefused: a document cannot be stored.
            Unclear, Busy: some may have been written or not, or were not written.
        """
        data = "".join(_lines(writes)).encode()
        wanted = "filter_path=errors,items.*.status,items.*.error"
        answer = self._connection.send("POST", f"{self._path}/_bulk?{wanted}", data)
        if answer.status == _TOO_LARGE:
            raise TargetRefused(f"OpenSearch: index {self.name!r}: a document is too large")
        body = self._connection.check(answer)
        if not body["errors"]:
            return []
        refused: list[Write] = []
        again: Unclear | Busy | None = None
        for write, item in zip(writes, body["items"], strict=True):
            ((kind, done),) = item.items()
            error = done.get("error")
            if error is None or (kind == "delete" and done["status"] == _NOT_FOUND):
                continue
            said = f"index {self.name!r}: the document {write.id[:100]!r}: {reason(done)}"
            if done["status"] == _CONFLICT:
                refused.append(write)
            elif done["status"] in (_BAD_REQUEST, _TOO_LARGE):
                raise TargetRefused(f"OpenSearch: {said}")
            elif error["type"] in _NOT_DONE:
                again = again or Busy(said)
            else:
                again = Unclear(said)
        if again is not None:
            raise again
        return refused

    def find(self, query: dict[str, Any], count: int) -> list[str]:
        """The ids of up to `count` documents that match; finds everything written before."""
        done = self._connection.check(self._connection.ask("POST", f"{self._path}/_refresh"))
        if done["_shards"]["failed"]:
            raise Unclear(f"index {self.name!r}: a shard was not refreshed")
        asked = {"query": query, "size": count, "_source": False, "sort": ["_doc"]}
        wanted = "allow_partial_search_results=false&filter_path=hits.hits._id"
        answer = self._connection.ask("POST", f"{self._path}/_search?{wanted}", asked)
        found = self._connection.check(answer)
        return [each["_id"] for each in found.get("hits", {}).get("hits", ())]

    # -- positions -------------------------------------------------------------------------

    def stored(self, partition: int) -> Stored | None:
        """The position document of a partition."""
        answer = self._connection.ask("GET", self._position(partition))
        if answer.status == _NOT_FOUND:
            return None
        found = self._connection.check(answer)
        return Stored(found["_source"], found["_seq_no"], found["_primary_term"])

    def store(self, partition: int, body: dict[str, Any], before: Stored | None) -> Stored | None:
        """Send a position document once; None: the stored one is no longer `before`.

        Raises:
            Unclear, Busy: it may have been stored or not, or was not stored.
        """
        condition = "op_type=create"
        if before is not None:
            condition = f"if_seq_no={before.seq_no}&if_primary_term={before.primary_term}"
        answer = self._connection.send("PUT", f"{self._position(partition)}?{condition}", body)
        if answer.status == _CONFLICT:
            return None
        found = self._connection.check(answer)
        return Stored(body, found["_seq_no"], found["_primary_term"])

    def _position(self, partition: int) -> str:
        return f"/{POSITIONS}/_doc/{quote(f'{self.name}/{partition}', safe='')}"


#: The types of errors of writes that had no effect.
_NOT_DONE: Final = frozenset(
    {
        "rejected_execution_exception",
        "opensearch_rejected_execution_exception",
        "es_rejected_execution_exception",
        "circuit_breaking_exception",
        "cluster_block_exception",
    }
)


def _path(name: str) -> str:
    return f"/{quote(name, safe='')}"


def _lines(writes: Iterable[Write]) -> Iterable[str]:
    for each in writes:
        kind = "delete" if each.document is None else "index"
        named = {"_id": each.id, "version": each.version, "version_type": "external_gte"}
        yield json.dumps({kind: named}) + "\n"
        if each.document is not None:
            yield each.document + "\n"
