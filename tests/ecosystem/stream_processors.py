"""quixstreams and faust count words, are killed, and go on from their changelogs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from ecosystem.installed import python_with
from ecosystem.secured.places import PLACES, Place
from rig.jvm.jars import Unavailable

_PROGRAMS = Path(__file__).parent / "programs"
_QUIXSTREAMS, _FAUST = "3.28.1", "0.15.3"
_WORDS = 5
_WAIT_S = 600.0
_TRIED = "words counted, killed in the midst, state restored"
Command = tuple[list[str], Mapping[str, str]]


def quixstreams(address: str, name: str, guarantee: str, folder: Path) -> Command:
    python = python_with(f"quixstreams=={_QUIXSTREAMS}")
    arguments = [address, name, guarantee, str(folder / "state")]
    return [str(python), str(_PROGRAMS / "quixstreams_app.py"), *arguments], {}


def faust(address: str, name: str, guarantee: str, folder: Path) -> Command:
    python = python_with(f"faust-streaming=={_FAUST}")
    program = [str(python), str(_PROGRAMS / "faust_app.py"), "worker", "--without-web"]
    settings = {
        "APP_BROKER": address,
        "APP_NAME": name,
        "APP_GUARANTEE": guarantee,
        "APP_DATA": str(folder / "data"),
    }
    return [*program, "-l", "warn"], settings


@contextmanager
def running(command: Command, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program; at the end it is killed, as if it had lost its power."""
    with output.open("ab") as said:
        process = subprocess.Popen(
            command[0], env={**os.environ, **command[1]}, stdout=said, stderr=said
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Counted:
    """The counts that a program has written of each word, in their order."""

    def __init__(self, place: Place, topic: str) -> None:
        self.counts: dict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer(
            {
                **place.settings,
                "group.id": f"{topic}-reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def read_until(self, total: int, program: subprocess.Popen[bytes], output: Path) -> None:
        """Wait for counts that make up so many words."""
        while sum(map(max, self.counts.values())) < total:
            deadline = time.monotonic() + _WAIT_S
            while (message := self._consumer.poll(1.0)) is None:
                said = f"{dict(self.counts)} of {total}:\n{output.read_text()[-4000:]}"
                assert program.poll() is None, f"the program has ended, {said}"
                assert time.monotonic() < deadline, f"no more comes, {said}"
            assert message.error() is None, message.error()
            told = json.loads(message.value())
            self.counts[told["word"]].append(told["count"])

    def close(self) -> None:
        self._consumer.close()


def put(place: Place, topic: str, count: int) -> None:
    producer = Producer({**place.settings, "enable.idempotence": True})
    for number in range(count):
        word = f"word{number % _WORDS}"
        producer.produce(topic, key=word, value=json.dumps({"word": word}))
    assert producer.flush(60) == 0


# Not faust's `exactly_once`: killed in the midst, it loses and repeats counts on Apache Kafka, too.
# A record goes into the transaction of the partition that it is written to, not of its source's.
@pytest.mark.parametrize(
    ("program", "guarantee", "place"),
    [
        pytest.param(
            *(program, guarantee, place),
            marks=pytest.mark.program(*told, f"{_TRIED}, {guarantee}{PLACES[place]}"),
        )
        for program, told, guarantee, place in (
            (quixstreams, ("quixstreams", _QUIXSTREAMS), "at-least-once", "plain"),
            (quixstreams, ("quixstreams", _QUIXSTREAMS), "exactly-once", "plain"),
            (quixstreams, ("quixstreams", _QUIXSTREAMS), "exactly-once", "three"),
            (quixstreams, ("quixstreams", _QUIXSTREAMS), "exactly-once", "secured"),
            (faust, ("faust-streaming", _FAUST), "at-least-once", "plain"),
            (faust, ("faust-streaming", _FAUST), "at-least-once", "secured"),
        )
    ],
    indirect=["place"],
)
def test_counting_goes_on_after_a_kill(
    program: Callable[[str, str, str, Path], Command],
    guarantee: str,
    place: Place,
    tmp_path: Path,
) -> None:
    name = f"{program.__name__}-{guarantee}"
    place.create(**{f"{name}-in": 3, f"{name}-out": 1})
    counted, output = Counted(place, f"{name}-out"), tmp_path / "output"
    try:
        # It is killed in the midst of the first records, and what it had on its disk is gone.
        for put_now, until in ((500, 250), (250, 750)):
            put(place, f"{name}-in", put_now)
            folder = tmp_path / str(until)
            folder.mkdir()
            command, settings = program(place.address, name, guarantee, folder)
            with running((command, {**settings, **place.environment}), output) as process:
                counted.read_until(until, process, output)
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        counted.close()
    assert len(counted.counts) == _WORDS
    if guarantee == "exactly-once":
        for word, counts in counted.counts.items():
            assert counts == [*range(1, 151)], word
