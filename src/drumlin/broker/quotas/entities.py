"""The owners of quotas: users, clients, both, and addresses, or the default of such.

Their quotas are configurations in the metadata. The names of these are Kafka's paths in ZooKeeper:
"users/alice/clients/<default>".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from drumlin.metadata.image import ClusterImage, Resource, ResourceType

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)
#: The key of the quotas of addresses.
CONNECTION_RATE: Final = "connection_creation_rate"
#: Types and names; None stands for the default of a type.
Entity: TypeAlias = Mapping[str, str | None]

#: In the order in which paths have them.
_FOLDERS: Final = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
_TYPE_OF: Final = {folder: entity_type for entity_type, folder in _FOLDERS.items()}
_DEFAULT: Final = "<default>"


def resource_of(entity: Entity) -> Resource:
    """Where the quotas of an entity are kept."""
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


def quotas_in(image: ClusterImage) -> Iterable[tuple[Resource, Mapping[str, str]]]:
    """All quotas in the metadata, by the resource of their entity."""
    for name in image.configured(ResourceType.QUOTA):
        resource = Resource(ResourceType.QUOTA, name)
        yield resource, image.configs(resource)


def _written(name: str) -> str:
    return quote(name, safe="").replace("~", "%7E")  # as Java's URLEncoder
