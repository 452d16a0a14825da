"""AlterClientQuotas (key 49), versions 0-1: set and remove quotas (KIP-546).

Each entity is answered once; one that is named twice is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from drumlin.broker.context import RequestContext
from drumlin.broker.quotas.entities import TYPES, resource_of
from drumlin.broker.quotas.requests import checked_changes
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)

#: Types and names; if a type occurs twice, its last name counts.
_Entity = tuple[tuple[str, str | None], ...]


async def handle(
    context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    may = context.may_cluster(Operation.ALTER_CONFIGS)
    outcomes: dict[_Entity, KafkaError | None] = {}
    for entry in request.entries:
        await give_way()
        names = await _names(entry.entity)
        parts = names.items()  # not sorted if there are more than types: that is refused later
        entity = tuple(sorted(parts) if len(parts) <= len(TYPES) else parts)
        if not may:
            outcomes[entity] = denied(Kind.CLUSTER)
            continue
        if entity in outcomes:
            message = "an entity is named more than once"
            outcomes[entity] = KafkaError(ErrorCode.invalid_request, message)
            continue
        outcomes[entity] = None
        try:
            changes = await checked_changes(names, entry.ops)
            if changes and not request.validate_only:
                await context.broker.metadata.alter_configs(
                    resource_of(names), partial(_those_of, changes)
                )
        except KafkaError as refusal:
            outcomes[entity] = refusal.with_traceback(None)  # the traceback refers to this frame
    entries = []
    for entity, error in outcomes.items():
        entries.append(await _entry(entity, error))
        await give_way()
    return AlterClientQuotasResponse(throttle_time=ZERO, entries=tuple(entries))


def _those_of(
    changes: Mapping[str, str | None], stored: Mapping[str, str]
) -> Mapping[str, str | None]:
    """The changes that make a difference."""
    return {key: text for key, text in changes.items() if stored.get(key) != text}


async def _names(entity: tuple[EntityData, ...]) -> dict[str, str | None]:
    names: dict[str, str | None] = {}
    for each in entity:
        names[each.entity_type] = each.entity_name
        await give_way()
    return names


async def _entry(entity: _Entity, error: KafkaError | None) -> EntryData:
    told = []
    for entity_type, name in entity:
        told.append(EntityData(entity_type=entity_type, entity_name=name))
        await give_way()
    return EntryData(
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
        entity=tuple(told),
    )
