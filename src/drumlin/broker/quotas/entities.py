"""The entities that have quotas: a user, a client id, both, or an IP address, or their defaults.

Quotas are configurations in the metadata, with names like Kafka's paths in ZooKeeper:
"users/alice/clients/<default>".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from drumlin.metadata.image import ClusterImage, Resource, ResourceType

_log = logging.getLogger(__name__)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)
#: The key of the quota of an address.
CONNECTION_RATE: Final = "connection_creation_rate"
#: Types and names; None stands for the default of a type.
Entity: TypeAlias = Mapping[str, str | None]

#: The folders of paths, in their order.
_FOLDERS: Final = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
_TYPE_OF: Final = {folder: entity_type for entity_type, folder in _FOLDERS.items()}
_DEFAULT: Final = "<default>"


def resource_of(entity: Entity) -> Resource:
    """The resource that has the quotas of an entity."""
    parts = []
    for entity_type, folder in _FOLDERS.items():
        if entity_type in entity:
            name = entity[entity_type]
            parts += [folder, _DEFAULT if name is None else _written(name)]
    return Resource(ResourceType.QUOTA, "/".join(parts))


def entity_of(resource: Resource) -> dict[str, str | None]:
    """
    Raises:
        ValueError: the resource has no quotas.
    """
    parts = resource.name.split("/")
    try:
        return {
            _TYPE_OF[folder]: None if name == _DEFAULT else unquote(name)
            for folder, name in zip(parts[::2], parts[1::2], strict=True)
        }
    except KeyError as unknown:
        raise ValueError(f"{resource.name!r} has an unknown folder: {unknown}") from None


def quotas_in(image: ClusterImage) -> Iterator[tuple[Entity, dict[str, float]]]:
    """All entities in the metadata that have quotas."""
    for name in image.configured(ResourceType.QUOTA):
        resource = Resource(ResourceType.QUOTA, name)
        found = quotas_of(resource, image.configs(resource))
        if found is not None and found[1]:
            yield found


def quotas_of(
    resource: Resource, configs: Mapping[str, str]
) -> tuple[Entity, dict[str, float]] | None:
    """The entity of a resource, and its quotas; None if it is damaged, which is logged.

    Values that are not numbers are left out: other programs may have written them, to ZooKeeper.
    """
    values = {}
    try:
        entity = entity_of(resource)
    except ValueError as error:
        _log.error("a quota cannot be used: %s", error)
        return None
    for key, text in configs.items():
        try:
            values[key] = float(text)
        except ValueError:
            _log.error("the quota %s=%.100r of %s is no number", key, text, resource.name)
    return entity, values


def _written(name: str) -> str:
    return quote(name, safe="").replace("~", "%7E")  # as Java's URLEncoder
