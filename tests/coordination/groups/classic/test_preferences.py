"""The protocols that members name: their votes, and how many different lists there may be."""

from __future__ import annotations

import pytest

from coordination.groups.classic.classic_members import REBALANCE_MS, SESSION_MS
from coordination.groups.coordinator.test_group_coordinator import with_coordinator
from coordination.memory_log import MemoryLog
from drumlin.clock import ManualClock
from drumlin.coordination.groups.classic import preferences
from drumlin.coordination.groups.classic.preferences import Preferences
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinRequest, LeavingMember, Protocols
from drumlin.wire.error_codes import ErrorCode


def _named(names: str) -> Protocols:
    return tuple((each, b"") for each in names)


def _counted(*lists: str) -> Preferences:
    counted = Preferences()
    for names in lists:
        counted.count(_named(names), 1)
    return counted


def test_each_votes_for_its_favourite_among_those_that_all_support() -> None:
    assert _counted("ab", "ba", "ba").elect(3) == "b"
    assert _counted("xab", "yab", "zba").elect(3) == "a"
    assert _counted("xa", "ya").elect(2) == "a"
    assert _counted("xya", "xya").elect(2) == "x"


def test_who_has_gone_does_not_count() -> None:
    counted = _counted("ab", "ba", "ba", "a")
    counted.count(_named("a"), -1)
    counted.count(_named("ab"), -1)
    assert counted.common("ab", 2) == {"a", "b"}
    assert counted.elect(2) == "b"


def test_there_is_room_for_what_others_name_and_for_few_lists_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preferences, "NAMES_MAX", 5)
    counted = _counted("ab", "ab", "ba")
    assert counted.have_room_for(_named("c"))
    assert not counted.have_room_for(_named("cd"))
    assert counted.have_room_for(_named("ab"))
    counted.count(_named("ba"), -1)
    assert counted.have_room_for(_named("cde"))


def test_a_group_takes_no_more_than_so_many_different_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many members come, the election looks at so many names at most."""
    monkeypatch.setattr(preferences, "NAMES_MAX", 6)

    def joining(names: str) -> JoinRequest:
        return JoinRequest(
            "", None, "", "", REBALANCE_MS, SESSION_MS, "consumer", _named(names), False
        )

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        waiting = [coordinator.join("g", joining(names)) for names in ("ab", "ba", "ac", "ab")]
        refused = await coordinator.join("g", joining("ad"))
        assert refused.error is ErrorCode.inconsistent_group_protocol
        waiting.append(coordinator.join("g", joining("ac")))
        assert not any(each.done() for each in waiting)
        members = coordinator.classic_group("g").membership.members
        gone = next(each for each in members.values() if each.protocols == _named("ba"))
        coordinator.leave("g", [LeavingMember(gone.member_id)])
        waiting.append(coordinator.join("g", joining("ad")))
        assert not waiting[-1].done()
        assert len(members) == 5

    with_coordinator(run)
