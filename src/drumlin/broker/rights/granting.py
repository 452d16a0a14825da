"""The authorizer of a broker: made from the configuration, and updated from the metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumlin.broker.rights.acls import acls_in, rule_of, target_of
from drumlin.broker.rights.authorizer import Authorizer
from drumlin.config.config_error import ConfigError
from drumlin.metadata.image import ClusterImage, ResourceType
from drumlin.metadata.store.changes import Change, ConfigsChanged

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig


def authorizer_of(config: BrokerConfig) -> Authorizer | None:
    """The configured authorizer, still without ACLs; None if there is none.

    Raises:
        ConfigError: a super user is not a principal.
    """
    if not str(config.value("authorizer.class.name") or "").strip():
        return None
    return Authorizer(
        frozenset(_super_users(config)),
        allows_without_acls=bool(config.value("allow.everyone.if.no.acl.found")),
    )


def _super_users(config: BrokerConfig) -> Iterator[str]:
    key = "super.users"
    text = str(config.value(key) or "")
    for each in filter(None, (part.strip() for part in text.split(";"))):
        if ":" not in each:
            raise ConfigError(key, text, "must be a list of TYPE:NAME, as User:admin;User:alice")
        yield each


def learn(authorizer: Authorizer, image: ClusterImage) -> None:
    """Set all ACLs in the metadata."""
    for target, rules in acls_in(image):
        authorizer.put(target, rules)


def follow(authorizer: Authorizer, change: Change) -> None:
    """Apply a change of the metadata, if it changes ACLs."""
    if isinstance(change, ConfigsChanged) and change.resource.type is ResourceType.ACL:
        authorizer.put(target_of(change.resource), frozenset(map(rule_of, change.configs)))
