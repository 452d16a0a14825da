"""The common part of AlterConfigs and IncrementalAlterConfigs: altering resources one by one.

Each resource succeeds or fails by itself. A resource that is named twice is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from drumlin.broker.configs.config_changes import tell_without_effect
from drumlin.config.config_error import ConfigError
from drumlin.metadata.image import ResourceType
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.broker.parts.parts import BrokerData
    from drumlin.metadata.image import Resource
    from drumlin.metadata.store.store import Alteration
    from drumlin.wire.protocol.alter_configs import AlterConfigsResource as Replaced
    from drumlin.wire.protocol.alter_configs import AlterConfigsResourceResponse as ReplacedResponse
    from drumlin.wire.protocol.incremental_alter_configs import AlterConfigsResource as Changed
    from drumlin.wire.protocol.incremental_alter_configs import (
        AlterConfigsResourceResponse as ChangedResponse,
    )

    R = TypeVar("R", Replaced, Changed)
    Answer = TypeVar("Answer", ReplacedResponse, ChangedResponse)

#: Keys per resource; only a few hundred have a meaning.
_KEYS_MAX: Final = 2_000


async def _counted(resources: Iterable[R]) -> Counter[tuple[int, str]]:
    named: Counter[tuple[int, str]] = Counter()
    for each in resources:
        named[each.resource_type, each.resource_name] += 1
        await give_way()
    return named


async def answer_each(
    resources: Sequence[R],
    resource_response: type[Answer],
    alter: Callable[[R], Awaitable[None]],
) -> tuple[Answer, ...]:
    """Call `alter` for each resource of the request; returns the response to each.

    A `KafkaError` of `alter` becomes the error of its resource.
    """
    named = await _counted(resources)

    async def answer(wanted: R) -> Answer:
        error: KafkaError | None = None
        try:
            if named[wanted.resource_type, wanted.resource_name] > 1:
                message = "named more than once in one request"
                raise KafkaError(ErrorCode.invalid_request, message)
            if len(wanted.configs) > _KEYS_MAX:
                message = f"{_KEYS_MAX} keys of a resource can be altered at once"
                raise KafkaError(ErrorCode.policy_violation, message)
            await alter(wanted)
        except KafkaError as refusal:
            error = refusal.with_traceback(None)  # the traceback refers to this frame
        return resource_response(
            error_code=error.code if error else ErrorCode.none,
            error_message=error.message if error else None,
            resource_type=wanted.resource_type,
            resource_name=wanted.resource_name,
        )

    return tuple(await side_by_side(answer, resources))


async def alter_or_check(
    broker: BrokerData,
    resource: Resource,
    alteration: Alteration,
    keys: Collection[str],
    validate_only: bool,
) -> None:
    """Alter the stored configuration, or only check whether that would be accepted.

    `keys` are the keys that are set; those without effect are logged.

    Raises:
        KafkaError: the change is refused.
    """
    if resource.type is not ResourceType.BROKER:
        await _alter(broker, resource, alteration, keys, validate_only)
        return
    async with broker.renewal.changing:
        await _check_certificates(broker, resource, alteration, keys)
        await _alter(broker, resource, alteration, keys, validate_only)
    if not validate_only:
        await broker.renewal.renew()


async def _alter(
    broker: BrokerData,
    resource: Resource,
    alteration: Alteration,
    keys: Collection[str],
    validate_only: bool,
) -> None:
    if validate_only:
        alteration(broker.metadata.image.configs(resource))
    else:
        await broker.metadata.alter_configs(resource, alteration)
        tell_without_effect(resource, keys)


async def _check_certificates(
    broker: BrokerData, resource: Resource, alteration: Alteration, keys: Collection[str]
) -> None:
    """Refuse invalid keys and certificates: with them, the broker could not be restarted."""
    image = broker.metadata.image
    current = image.configs(resource)
    altered = {**current, **alteration(current)}
    wanted = {key: value for key, value in altered.items() if value is not None}
    try:
        if resource.name:
            await broker.renewal.check(image.broker_configs(""), wanted, keys)
        else:
            own = image.broker_configs(str(broker.node_id))
            await broker.renewal.check(wanted, own, keys)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from None
