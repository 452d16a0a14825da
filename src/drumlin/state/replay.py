"""Reads past states from a changelog, as far as the log cleaner has left them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from drumlin.client import arguments
from drumlin.client.client import connect
from drumlin.client.places import is_time
from drumlin.state.changelog import Changelog
from drumlin.state.keyed_state import KeyedState

if TYPE_CHECKING:
    from drumlin.client.places import Time
    from drumlin.peer.security.security import Security


class PastState(NamedTuple):
    """The state of a partition after processing the input records before `offset`."""

    offset: int | None  # None: the changelog was empty, or there are several inputs
    state: KeyedState
    #: The offset in each input, by topic.
    offsets: Mapping[str, int]


def replay(
    group: str,
    state: str,
    *,
    bootstrap: str,
    at: Time | None = None,
    security: Security | Mapping[str, str] | None = None,
) -> dict[int, PastState]:
    """Read the state at a time from its changelog into memory. Nothing is changed.

    Args:
        group: the consumer group.
        state: the name of the state.
        bootstrap: "host:port[,host:port...]" of the cluster.
        at: an aware datetime, or `Milliseconds`: include the commits until then, by the clocks of
            the committing processes; None: all commits so far.
        security: TLS and login, as in `connect`.

    Returns:
        By partition: the state, and the input offset before which it includes all records.

    Raises:
        StateNotExact: the log cleaner has, or may have, removed records of that state.
        StateRefused: the changelog's timestamps are not commit times, or its version is later.
        UnknownTopic: the changelog does not exist.
        BrokerUnreachable, AuthenticationFailed: as from `connect`.
        TypeError, ValueError: an argument is invalid.
    """
    for name, value in (("group", group), ("state", state)):
        arguments.text(name, value)
    if at is not None and not is_time(at):
        raise TypeError(f"at {arguments.shown(at)}: expected an aware datetime or Milliseconds")
    found = {}
    with connect(bootstrap, security=security) as client:
        for each in Changelog(client, group, state).read(at=at):
            keys, values = (each.rows.column(name).to_pylist() for name in ("key", "value"))
            offsets = {position.topic: position.offset for position in each.positions}
            (offset,) = offsets.values() if len(offsets) == 1 else (None,)
            state_then = KeyedState(dict(zip(keys, values, strict=True)))
            found[each.partition] = PastState(offset, state_then, offsets)
    return found
