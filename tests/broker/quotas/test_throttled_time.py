"""The time for which clients were throttled: each counts once, however many there are."""

from __future__ import annotations

import re

from drumlin.broker.quotas.throttled import OTHERS, ThrottledTime

HOUR_MS = 3_600_000


def test_clients_are_counted_alone_as_long_as_there_are_places() -> None:
    time = ThrottledTime(re.compile("[a-z]+"), 2)
    for client, seconds in ((("u", "a"), 1), (("u", "B"), 2), (("v", "a"), 3), (("u", "c"), 4)):
        time.add(client, seconds, 0)
    time.add(("u", "a"), 5, 0)
    assert time.seconds() == {("u", "a"): 6, ("v", "a"): 3, OTHERS: 6}


def test_a_client_that_is_idle_loses_its_place_and_no_time_is_lost() -> None:
    time = ThrottledTime(re.compile(".*"), 2)
    time.add(("u", "a"), 1, 0)
    time.add(("u", "b"), 2, 10)
    time.add(("u", "a"), 1, HOUR_MS)
    time.add(("u", "c"), 4, HOUR_MS + 5)
    assert time.seconds() == {("u", "a"): 2, ("u", "b"): 2, OTHERS: 4}
    time.add(("u", "c"), 4, HOUR_MS + 10)
    assert time.seconds() == {("u", "a"): 2, ("u", "c"): 4, OTHERS: 6}


def test_none_is_counted_alone_where_none_is_wanted() -> None:
    time = ThrottledTime(re.compile(".*"), 0)
    time.add(("u", "a"), 1, 0)
    assert time.seconds() == {OTHERS: 1}


def test_a_name_of_any_length_takes_little() -> None:
    time = ThrottledTime(re.compile(".*"), 5)
    time.add(("u", "a" * 30_000), 1, 0)
    assert max(len(client_id) for _, client_id in time.seconds()) == 250
