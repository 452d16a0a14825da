"""Users, and the owners of client quotas, in the znodes of Apache Kafka 3.9. Pure.

A node below `/config` is named by the path of an entity: `users/alice`, `users/alice/clients/app`,
`clients/app`, `ips/10.0.0.1`, with `<default>` for all others; names are escaped. A user's node has
both the credentials and the quotas, which are two resources in the image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from drumlin.metadata.image import Resource, ResourceType

OWNERS: Final = (ResourceType.USER, ResourceType.QUOTA)
#: The parents of nodes; a user's own node may be a parent of `clients`, too.
USERS: Final = "users"
FOLDERS: Final = (USERS, "clients", "ips")
CLIENTS: Final = "clients"
_DEFAULT: Final = "<default>"
#: The prefix of the keys of a user's credentials.
_CREDENTIAL: Final = "SCRAM-"
#: Quotas that Kafka writes as integers; it cannot read a fraction there.
_WHOLE: Final = ("consumer_byte_rate", "producer_byte_rate", "connection_creation_rate")
_ONE, _PAIR = 2, 4  # parts of an entity's path


def entity_path(resource: Resource) -> str:
    """The path of an entity; for quotas, it is the resource's name."""
    if resource.type is ResourceType.QUOTA:
        return resource.name
    return f"{USERS}/{escaped(resource.name)}"


def owners_at(entity: str) -> list[Resource]:
    """The resources in the node of an entity; none if the path does not name an entity."""
    parts = entity.split("/")
    is_pair = len(parts) == _PAIR and (parts[0], parts[2]) == (USERS, CLIENTS)
    if not is_pair and (len(parts) != _ONE or parts[0] not in FOLDERS):
        return []
    found = [Resource(ResourceType.QUOTA, entity)]
    if parts[0] == USERS and not is_pair and parts[1] != _DEFAULT:
        found.append(Resource(ResourceType.USER, unquote(parts[1])))
    return found


def part_of(resource: Resource, configs: Mapping[str, str]) -> dict[str, str]:
    """The resource's part of its node's configuration."""
    is_user = resource.type is ResourceType.USER
    return {key: text for key, text in configs.items() if key.startswith(_CREDENTIAL) is is_user}


def written(configs: Mapping[str, str]) -> dict[str, str]:
    """A node's configuration, with numbers as Kafka reads them."""
    return {key: _whole(text) if key in _WHOLE else text for key, text in configs.items()}


def _whole(text: str) -> str:
    try:
        return str(int(float(text)))
    except (ValueError, OverflowError):
        return text


def escaped(name: str) -> str:
    """A name, escaped as in Kafka; also escapes "." and "..", which cannot be names of nodes."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe="").replace("~", "%7E")
