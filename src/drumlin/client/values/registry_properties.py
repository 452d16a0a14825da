"""A schema registry in the properties of Confluent's serializers.

Unknown properties are refused by name. Messages show no values, which may be passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.client.values.registry import SchemaRegistry
from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import Tls

_PREFIX: Final = "schema.registry."
_URL: Final = "url"
_SOURCES: Final = ("basic.auth.credentials.source", "bearer.auth.credentials.source")
_USER: Final = "basic.auth.user.info"
_TOKEN: Final = "bearer.auth.token"  # noqa: S105  the name of a property
_TLS: Final = "ssl."


def registry_in(properties: Mapping[str, str]) -> SchemaRegistry:
    """The registry that properties describe, such as `schema.registry.url`.

    The prefix `schema.registry.` may be missing where Confluent's Java serializers have none.

    Raises:
        ValueError: a property is unknown, not valid, or missing; the message names it.
    """
    found = {name.removeprefix(_PREFIX): text.strip() for name, text in properties.items()}
    known = (_URL, _USER, _TOKEN, *_SOURCES)
    unknown = sorted(each for each in found if each not in known and not each.startswith(_TLS))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: unknown for a schema registry")
    if _URL not in found:
        raise ValueError(f"{_PREFIX}{_URL} is missing")
    for name, wanted in zip(_SOURCES, ("USER_INFO", "STATIC_TOKEN"), strict=True):
        if found.get(name, wanted) != wanted:
            raise ValueError(f"{name}: {wanted} is all that is known here")
    user, colon, password = found.get(_USER, "").partition(":")
    if _USER in found and not colon:
        raise ValueError(f"{_USER}: expected USER:PASSWORD")
    secured = {name: text for name, text in found.items() if name.startswith(_TLS)}
    tls = Security.of({"security.protocol": "SSL", **secured}).tls if secured else None
    return SchemaRegistry(
        found[_URL],
        username=user if colon else None,
        password=password if colon else None,
        token=found.get(_TOKEN),
        tls=tls or Tls(),
    )
