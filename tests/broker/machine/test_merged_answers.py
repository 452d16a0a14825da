"""One answer of several brokers: what was done by any of them is told, with what."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from drumlin.broker.machine.merging import Answer, merged_results


def done(*partitions: int) -> Answer:
    return HTTPStatus.OK, {"results": [{"topic": "t", "partition": each} for each in partitions]}


NONE_HERE: Answer = (HTTPStatus.NOT_FOUND, {"error": "no such partition"})
REFUSED: Answer = (HTTPStatus.CONFLICT, {"error": "it is being cleaned"})


@pytest.mark.parametrize("other", [NONE_HERE, REFUSED])
def test_what_was_done_is_told_with_its_broker(other: Answer) -> None:
    status, body = merged_results({1: other, 2: done(3), 3: done(0, 3)})
    assert status == HTTPStatus.OK
    told = [(each["partition"], each["broker"]) for each in body["results"]]
    assert told == [(0, 3), (3, 2), (3, 3)]


def test_a_refusal_goes_before_there_being_nothing() -> None:
    assert merged_results({1: NONE_HERE, 2: REFUSED}) == REFUSED
    assert merged_results({1: NONE_HERE, 2: NONE_HERE}) == NONE_HERE
