"""What can go wrong between us and a broker before it has answered anything.

An answer with an error code is a `KafkaError`. Every message here names the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class PeerError(Exception):
    """No usable answer from a broker."""


class ConnectionLost(PeerError):
    """No connection could be made, or it ended while requests were waiting."""


class RequestTimeout(PeerError):
    """A broker, or the cluster, did not do what was asked in time."""


class UnsupportedByBroker(PeerError):
    """The broker does not support the API, or no version of it that we support."""


class InvalidResponse(PeerError):
    """The broker sent bytes that do not answer the request."""


class AuthenticationFailed(PeerError):
    """We do not trust the broker, or it does not accept our identity.

    The same would happen again: nothing is retried after this.
    """


def only(answers: Sequence[T], what: str) -> T:
    """The one answer to a request for one thing.

    Raises:
        InvalidResponse: there is no answer, or more than one.
    """
    if len(answers) != 1:
        raise InvalidResponse(f"{what}: {len(answers)} answers to one question")
    return answers[0]
