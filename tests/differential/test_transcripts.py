"""Recorded answers of Kafka: that a comparison with them finds what one with Kafka would."""

from __future__ import annotations

from typing import Any

import pytest

from differential.compare import Step
from differential.now import NOW
from differential.scripts import Broker, Brokers
from differential.transcripts import Transcripts, code_alone, symbolic
from rig.servers.apache_kafka import ApacheKafka

_KAFKA: Any = None  # not asked where its answers are recorded
_SAID = {"topics": [{"name": "t", "timestamp": NOW - 500, "records": b"\x00\xff", "error_code": 3}]}


class _Recorded(Transcripts):
    """One answer, as it comes from a file that was written an hour ago."""

    def of(self, module: str, test: str) -> Any:
        assert (module, test) == ("m", "t")
        return [("list_offsets", 7, symbolic(_SAID))], [1]


def _compare(answer: Any, rest: Any = (1,)) -> None:
    def run(name: str, broker: Broker) -> tuple[list[Step], Any]:
        assert name == "Drumlin"
        return [Step("list_offsets", 7, answer, "a note")], rest

    kafka: ApacheKafka = _KAFKA
    Brokers(kafka, _KAFKA, _Recorded(), "replay").compare("m", "t", run, "what is asked")


def _changed(field: str, value: Any) -> Any:
    return {"topics": [_SAID["topics"][0] | {field: value}]}


def test_the_same_answer() -> None:
    _compare(_SAID)


@pytest.mark.parametrize(
    "answer",
    [
        _changed("error_code", 0),
        _changed("error_code", True),
        _changed("records", b"\x00\xfe"),
        _changed("timestamp", NOW - 501),
        _changed("other", None),
        {"topics": []},
        "(the connection was closed)",
    ],
    ids=["code", "type", "bytes", "moment", "more", "less", "no answer"],
)
def test_another_answer_is_found(answer: Any) -> None:
    with pytest.raises(pytest.fail.Exception, match="what is asked"):
        _compare(answer)


def test_what_else_must_be_the_same() -> None:
    with pytest.raises(AssertionError):
        _compare(_SAID, rest=(2,))


def test_a_script_that_has_not_been_recorded() -> None:
    with pytest.raises(pytest.fail.Exception, match="recorded"):
        Transcripts().of("differential.data.test_fetch", "no_such_test")


def test_moments_do_not_depend_on_when_they_were_recorded() -> None:
    assert symbolic([NOW, {"at": NOW + 20, 5: True}]) == ["<NOW+0>", {"at": "<NOW+20>", 5: True}]
    assert symbolic((1_700_000_000_000, 2**63 - 1, -1, None)) == [
        *(1_700_000_000_000, 2**63 - 1, -1, None)
    ]


def test_only_code_makes_a_script_another() -> None:
    script = 'def ask(peer):\n    peer.ask(limit="# 5")\n'
    told = '"""Asks."""\n\ndef ask(peer):\n    """Once."""\n    peer.ask( limit="# 5")  # five\n'
    assert code_alone(script) == code_alone(told)
    assert code_alone(script) != code_alone(script.replace("5", "6"))
