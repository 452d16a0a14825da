"""Entries of a request with nothing in them are steps of its work as well: there may be 500,000."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.sessions import SESSION
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import alter_client_quotas, delete_records, offset_delete, offset_fetch
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import RequestHeader
from drumlin.wire.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from rig.data.messages import build
from rig.time.stepped import Stepped

_ENTRIES = 5_000


def _context(version: int, **broker: Any) -> RequestContext:
    image = SimpleNamespace(topics={}, topic_name=lambda _: None)
    metadata = SimpleNamespace(image=image)
    holder: Any = SimpleNamespace(authorizer=None, quotas=None, metadata=metadata, **broker)
    connection: Any = None
    return RequestContext(holder, connection, RequestHeader(0, version, 1, "c", 0), SESSION)


def test_quotas_of_nobody() -> None:
    request = build("alter_client_quotas", 1, {"entries": [{}] * _ENTRIES})
    assert Stepped(alter_client_quotas.handle(_context(1), request)).count() >= _ENTRIES


def test_a_quota_of_an_entity_with_very_many_parts() -> None:
    entity = [{"entity_type": f"t{each}", "entity_name": "a"} for each in range(_ENTRIES)]
    request = build("alter_client_quotas", 1, {"entries": [{"entity": entity}]})
    assert Stepped(alter_client_quotas.handle(_context(1), request)).count() >= 2 * _ENTRIES
    (told,) = to_end(alter_client_quotas.handle(_context(1), request)).entries
    assert told.error_code is ErrorCode.invalid_request
    assert {each.entity_type for each in told.entity} == {f"t{each}" for each in range(_ENTRIES)}


def test_offsets_of_groups_without_topics() -> None:
    groups = SimpleNamespace(has_unconfirmed=False, committed_offsets=lambda *_, **__: ())
    named = tuple(
        OffsetFetchRequestGroup(group_id=f"g{each}", topics=()) for each in range(_ENTRIES)
    )
    for version in (8, 10):
        work = offset_fetch.handle(
            _context(version, groups=groups), OffsetFetchRequest(groups=named)
        )
        assert Stepped(work).count() >= 2 * _ENTRIES  # compared, answered


def test_offsets_of_the_same_group_without_topics() -> None:
    repeated = (OffsetFetchRequestGroup(group_id="g", topics=()),) * _ENTRIES
    assert Stepped(offset_fetch._unlike(repeated)).count() >= _ENTRIES
    assert to_end(offset_fetch._unlike(repeated)) == [repeated[0]]


def test_topics_without_partitions() -> None:
    request = build("offset_delete", 0, {"topics": [{"name": "t"}] * _ENTRIES})
    assert Stepped(offset_delete._sort(_context(0), request.topics)).count() >= _ENTRIES
    assert Stepped(offset_delete._respond(request, [], {}, [])).count() >= _ENTRIES
    request = build("delete_records", 2, {"topics": [{"name": "t"}] * _ENTRIES})
    assert Stepped(delete_records.handle(_context(2), request)).count() >= _ENTRIES


@pytest.mark.parametrize("names", [["a", "a"], ["a", "b"]])
def test_entities_are_told_apart_whatever_their_order(names: list[str]) -> None:
    user = {"entity_type": "user", "entity_name": "u"}
    entities = [[user, {"entity_type": "client-id", "entity_name": each}] for each in names]
    entries = [{"entity": entities[0]}, {"entity": entities[1][::-1]}]
    request = build("alter_client_quotas", 1, {"entries": entries})
    told = to_end(alter_client_quotas.handle(_context(1), request)).entries
    assert len(told) == len(set(names))
