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
    """The broker does not know the API, or no version of it that we know."""


class InvalidResponse(PeerError):
    """The broker sent bytes that are no answer to what it was asked."""


class AuthenticationFailed(PeerError):
    """The broker is not whom we trust, or does not take us for whom we say we are.

    The same would happen again: nothing is tried a second time after it.
    """


def only(answers: Sequence[T], what: str) -> T:
    """The one answer about the one thing that was asked for.

    Raises:
        InvalidResponse: there is none, or there are more.
    """
    if len(answers) != 1:
        raise InvalidResponse(f"{what}: {len(answers)} answers to one question")
    return answers[0]
