"""States of the past: what a changelog had at a time, as long as its cleaner has left it."""

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
    """The state of a partition: that after the input's records before `offset`."""

    offset: int | None  # None: the changelog had nothing
    state: KeyedState


def replay(
    group: str,
    state: str,
    *,
    bootstrap: str,
    at: Time | None = None,
    security: Security | Mapping[str, str] | None = None,
) -> dict[int, PastState]:
    """The state as it was at a time, from its changelog, in memory. Nothing is changed.

    Args:
        group: the consumer group.
        state: the name of the state.
        bootstrap: "host:port[,host:port...]" of the cluster.
        at: an aware datetime, or `Milliseconds`: whole commits until then, by the clocks of the
            processes that made them; None: all commits so far.
        security: TLS and login, as in `connect`.

    Returns:
        By partition: the state, and the offset of the input up to which it goes.

    Raises:
        StateNotExact: the cleaner has removed, or may have removed, what the state had then.
        StateRefused: the changelog does not have the times of commits, or is of a later version.
        UnknownTopic: there is no such changelog.
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
            offset = None if each.position is None else each.position.offset
            found[each.partition] = PastState(
                offset, KeyedState(dict(zip(keys, values, strict=True)))
            )
    return found
