"""Users, and the owners of client quotas, in the znodes of Apache Kafka 3.9. Pure.

A node below `/config` is called by the path of an entity: `users/alice`, `users/alice/clients/app`,
`clients/app`, `ips/10.0.0.1`, with `<default>` for all others; names are escaped. A user's node has
both the credentials and the quotas, which are two resources in the image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from drumlin.metadata.image import Resource, ResourceType

OWNERS: Final = (ResourceType.USER, ResourceType.QUOTA)
#: The parents of nodes, and of those of a user's clients.
USERS: Final = "users"
FOLDERS: Final = (USERS, "clients", "ips")
CLIENTS: Final = "clients"
_DEFAULT: Final = "<default>"
#: How the keys of a user's credentials begin.
_CREDENTIAL: Final = "SCRAM-"
#: Quotas that Kafka writes without a fraction, and reads so only.
_WHOLE: Final = ("consumer_byte_rate", "producer_byte_rate", "connection_creation_rate")
_ONE, _PAIR = 2, 4  # parts of an entity's path


def entity_path(resource: Resource) -> str:
    """The path of an entity; that of quotas is the resource's name."""
    if resource.type is ResourceType.QUOTA:
        return resource.name
    return f"{USERS}/{escaped(resource.name)}"


def owners_at(entity: str) -> list[Resource]:
    """The resources that the node of an entity has; none if the path is no entity's."""
    parts = entity.split("/")
    is_pair = len(parts) == _PAIR and (parts[0], parts[2]) == (USERS, CLIENTS)
    if not is_pair and (len(parts) != _ONE or parts[0] not in FOLDERS):
        return []
    found = [Resource(ResourceType.QUOTA, entity)]
    if parts[0] == USERS and not is_pair and parts[1] != _DEFAULT:
        found.append(Resource(ResourceType.USER, unquote(parts[1])))
    return found


def part_of(resource: Resource, configs: Mapping[str, str]) -> dict[str, str]:
    """What the resource has of its node's configuration."""
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
    """A name, escaped as Kafka does it; two names would be none for a node."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe="").replace("~", "%7E")
