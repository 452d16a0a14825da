"""A fetch that waits for a share partition is woken, whatever the others wait for."""

from __future__ import annotations

import pytest

from drumlin.broker.share_partitions.room import ShareRoom
from drumlin.replication.waiting_room import Waiter, WaitingRoom


@pytest.mark.parametrize("kinds", [(False, True), (True, False), (True,), (False,)])
def test_each_is_woken_by_what_it_waits_for(kinds: tuple[bool, ...]) -> None:
    """The isolation level of a group may change while its members wait."""
    room = WaitingRoom()
    shared, woken = ShareRoom(room), list[bool]()
    waiters = [Waiter(1, lambda kind=kind: woken.append(kind)) for kind in kinds]  # type: ignore[misc]
    for waiter, kind in zip(waiters, kinds, strict=True):
        shared.enter(waiter, for_stable=kind)
    if kinds[-1]:
        room.stable_advanced(100)
    else:
        room.advanced(100)
    assert kinds[-1] in woken
    for waiter in waiters:
        shared.leave(waiter)
    assert len(room) == len(shared) == 0
