"""Users with SCRAM credentials (KIP-554): checks of requests, and the stored credentials.

A user's credentials are a configuration in the metadata, with the names of mechanisms as keys. Each
value is the text that Apache Kafka keeps in ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from drumlin.broker.login.mechanisms.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential
from drumlin.metadata.image import ClusterImage, Resource, ResourceType
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.wire.protocol.alter_user_scram_credentials import ScramCredentialUpsertion

_log = logging.getLogger(__name__)

#: Mechanisms by their numbers in requests.
MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def user(name: str) -> Resource:
    """The resource that has the credentials of a user."""
    return Resource(ResourceType.USER, name)


def credential_of(image: ClusterImage, mechanism: str, name: str) -> ScramCredential | None:
    """The stored credential of a user, or None."""
    text = image.configs(user(name)).get(mechanism)
    if text is None:
        return None
    try:
        return ScramCredential.of_text(text)
    except ValueError:
        _log.error("the %s credential of user %r is damaged", mechanism, name)
        return None


def described(image: ClusterImage, name: str) -> list[tuple[int, int]]:
    """The mechanisms of a user, by number, and their iterations.

    Raises:
        KafkaError: RESOURCE_NOT_FOUND.
    """
    found = []
    for number, mechanism in MECHANISMS.items():
        credential = credential_of(image, mechanism, name)
        if credential is not None:
            found.append((number, credential.iterations))
    if not found:
        raise no_credential(name)
    return found


def no_credential(name: str) -> KafkaError:
    """The error for a user without the credential that a request is about."""
    message = f"Attempt to describe a user credential that does not exist: {name}"
    return KafkaError(ErrorCode.resource_not_found, message)


def check_change(name: str, mechanism: int) -> None:
    """Check the fields that deletions and upsertions have in common.

    Raises:
        KafkaError: the user has no name, or there is no such mechanism.
    """
    if not name:
        raise KafkaError(ErrorCode.unacceptable_credential, "a user must have a name")
    if mechanism not in MECHANISMS:
        message = f"there is no SCRAM mechanism {mechanism}"
        raise KafkaError(ErrorCode.unsupported_sasl_mechanism, message)


def kept(upsertion: ScramCredentialUpsertion) -> tuple[str, str]:
    """The mechanism, and the text to store.

    Raises:
        KafkaError: the upsertion is not valid.
    """
    check_change(upsertion.name, upsertion.mechanism)
    if not ITERATIONS_MIN <= upsertion.iterations <= ITERATIONS_MAX:
        allowed = f"{ITERATIONS_MIN} to {ITERATIONS_MAX} iterations, not {upsertion.iterations}"
        raise KafkaError(ErrorCode.unacceptable_credential, allowed)
    mechanism = MECHANISMS[upsertion.mechanism]
    credential = ScramCredential.of_salted(
        mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations
    )
    return mechanism, credential.text()
