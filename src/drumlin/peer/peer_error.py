"""Errors of a connection to a broker, if there is no answer from the broker.

An answer with an error code is a `KafkaError`. Every message here names the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class PeerError(Exception):
    """No usable answer from a broker."""


class ConnectionLost(PeerError):
    """The connection could not be made, or ended while requests were waiting."""


class RequestTimeout(PeerError):
    """A broker or the cluster did not answer or act in time."""


class UnsupportedByBroker(PeerError):
    """The broker does not support the API, or any of our versions of it."""


class InvalidResponse(PeerError):
    """The broker sent bytes that do not answer the request."""


class AuthenticationFailed(PeerError):
    """We do not trust the broker, or it rejects our identity.

    Never retried, as the outcome would be the same.
    """


def only(answers: Sequence[T], what: str) -> T:
    """The single answer to a request about one topic, partition or group.

    Raises:
        InvalidResponse: there is no answer, or more than one.
    """
    if len(answers) != 1:
        raise InvalidResponse(f"{what}: {len(answers)} answers to one question")
    return answers[0]
