"""By which time what is old is removed, when the wall clock jumps."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.clock import ExpiryTime, ManualClock, SystemClock
from rig.time.clocks import JumpingClock

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
YEAR_MS = 365 * 24 * HOUR_MS


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


def warnings(caplog: pytest.LogCaptureFixture) -> int:
    count = len(caplog.records)
    assert all(each.levelname == "WARNING" for each in caplog.records)
    caplog.clear()
    return count


def test_a_clock_that_goes_on_is_believed(
    clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        clock.advance_ms(3 * HOUR_MS)
        assert clock.expiry.now_ms() == clock.wall_ms()
    assert clock.expiry.doubt is None
    assert warnings(caplog) == 0


def test_a_clock_that_is_corrected_little_by_little_is_believed(
    clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    for correction_ms in [MINUTE_MS - 1000, *[1800] * 1000, *[-1800] * 1000]:
        clock.advance_ms(HOUR_MS)
        clock.jump_ms(correction_ms)
        assert clock.expiry.now_ms() == clock.wall_ms()
    assert warnings(caplog) == 0


def test_a_jump_ahead_counts_after_an_hour(
    clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    before_ms = clock.wall_ms()
    clock.jump_ms(YEAR_MS)
    assert clock.expiry.now_ms() == before_ms
    assert clock.expiry.doubt == (YEAR_MS, 3600.0)
    clock.advance_ms(HOUR_MS - 1)
    assert clock.expiry.now_ms() == before_ms + HOUR_MS - 1
    assert warnings(caplog) == 1
    clock.advance_ms(1)
    assert clock.expiry.now_ms() == clock.wall_ms() == before_ms + YEAR_MS + HOUR_MS
    assert clock.expiry.doubt is None
    assert warnings(caplog) == 1


def test_a_jump_back_is_trusted_at_once(
    clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.jump_ms(-YEAR_MS)
    assert clock.expiry.now_ms() == clock.wall_ms()
    assert warnings(caplog) == 1
    clock.jump_ms(YEAR_MS)  # what was written meanwhile has become old by this
    assert clock.expiry.now_ms() == clock.wall_ms() - YEAR_MS


@pytest.mark.parametrize("back_ms", [YEAR_MS, YEAR_MS - 30_000, YEAR_MS + 30_000, 2 * YEAR_MS])
def test_a_jump_back_ends_the_wait(
    clock: JumpingClock, caplog: pytest.LogCaptureFixture, back_ms: int
) -> None:
    clock.jump_ms(YEAR_MS)
    clock.expiry.now_ms()
    clock.advance_ms(MINUTE_MS)
    clock.jump_ms(-back_ms)
    assert clock.expiry.now_ms() == clock.wall_ms()
    assert clock.expiry.doubt is None
    assert warnings(caplog) == 2


def test_each_jump_has_its_hour(clock: JumpingClock) -> None:
    before_ms = clock.wall_ms()
    for _ in range(3):
        clock.jump_ms(YEAR_MS)
        assert clock.expiry.now_ms() < before_ms + 3 * HOUR_MS
        clock.advance_ms(HOUR_MS - MINUTE_MS)
    clock.jump_ms(-YEAR_MS)  # still ahead of what is believed
    assert clock.expiry.now_ms() == before_ms + 3 * (HOUR_MS - MINUTE_MS)
    clock.advance_ms(HOUR_MS)
    assert clock.expiry.now_ms() == clock.wall_ms()


def test_steps_and_a_clock_that_is_too_fast_are_doubted(clock: JumpingClock) -> None:
    """However often one looks: a minute an hour is a correction, more is not."""
    for _ in range(3000):
        clock.advance_ms(1000)
        clock.jump_ms(500)
        believed_ms = clock.expiry.now_ms()
    assert clock.wall_ms() - believed_ms > 20 * MINUTE_MS


def test_an_operator_says_that_it_is_right(
    clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.expiry.trust()
    assert warnings(caplog) == 0
    clock.jump_ms(YEAR_MS)
    clock.expiry.trust()
    assert clock.expiry.now_ms() == clock.wall_ms()
    assert warnings(caplog) == 2


def test_what_was_before_a_start_is_unknown(clock: JumpingClock) -> None:
    later = JumpingClock(clock.wall_ms() + YEAR_MS)
    assert later.expiry.now_ms() == later.wall_ms()


def test_a_process_that_is_stopped_between_two_looks_doubts_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    stops = [0, 5 * MINUTE_MS, 0, 0, 0]

    def wall_ms() -> int:
        found = clock.wall_ms()
        clock.advance_ms(stops.pop())
        return found

    expiry = ExpiryTime(wall_ms, clock.monotonic)
    for _ in range(3):
        assert expiry.now_ms() == clock.wall_ms()
    assert stops == []
    assert warnings(caplog) == 0


def test_the_machine_s_clocks() -> None:
    clock = SystemClock()
    before_ms = clock.wall_ms()
    assert before_ms <= clock.expiry.now_ms() <= clock.wall_ms()
    assert clock.expiry.doubt is None


def test_a_machine_without_a_boot_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: int) -> float:
        raise OSError

    monkeypatch.setattr(time, "clock_gettime", none)
    clock = SystemClock()
    assert clock.expiry.now_ms() >= clock.wall_ms() - 1000


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["advance", "jump"]),
            st.sampled_from([1, 1000, 50_000, 70_000, HOUR_MS, HOUR_MS * 30, -1000, -70_000]),
        ),
        max_size=40,
    )
)
def test_it_is_never_ahead_of_both(steps: list[tuple[str, int]]) -> None:
    """Nothing is older than by the wall clock, nor than the time that has passed makes it."""
    clock = JumpingClock()
    latest_ms, last_jump_s = clock.expiry.now_ms(), -1e9
    for kind, size_ms in steps:
        before_s = clock.monotonic()
        if kind == "jump":
            clock.jump_ms(size_ms)
            last_jump_s = before_s
        elif size_ms > 0:
            clock.advance_ms(size_ms)
        now_ms = clock.expiry.now_ms()
        assert now_ms <= clock.wall_ms()
        if clock.monotonic() - last_jump_s < 3600:
            passed_ms = (clock.monotonic() - before_s) * 1000
            assert now_ms <= latest_ms + passed_ms + 2 * MINUTE_MS
        latest_ms = max(latest_ms, now_ms)
