"""bytewax, FastStream, kombu, OpenTelemetry, Pathway and streamz, each in a Python of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer

from ecosystem.installed import python_with
from ecosystem.secured.places import Place, both_ways
from rig.servers.running import skipped_where_unavailable

_PROGRAMS = Path(__file__).parent / "programs"
_WAIT_S = 900.0
_BYTEWAX, _FASTSTREAM, _KOMBU, _OPENTELEMETRY = "0.21.1", "0.7.8", "5.7.0", "0.66b1"
_PATHWAY, _STREAMZ = "0.33.0", "0.6.6"
_WORDS = 5


def interpreter(*requirements: str) -> str:
    with skipped_where_unavailable():
        return str(python_with(*requirements))


def run(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """What it prints."""
    done = subprocess.run(
        command,
        cwd=_PROGRAMS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@both_ways("bytewax", _BYTEWAX, "a count by key, stopped, its state recovered")
def test_bytewax(place: Place, tmp_path: Path) -> None:
    python = interpreter(f"bytewax[kafka]=={_BYTEWAX}")
    place.create(bytewax_in=3, bytewax_out=1)
    run([python, "-m", "bytewax.recovery", str(tmp_path), "1"])
    producer = Producer(dict(place.settings))
    for count in (500, 250):
        for number in range(count):
            producer.produce("bytewax-in", b"v", f"word{number % _WORDS}")
        assert producer.flush(60) == 0
        command = [python, "-m", "bytewax.run", "-r", str(tmp_path), "-s", "1", "-b", "0"]
        environment = {**place.environment, "BROKER": place.address, "NAME": "bytewax"}
        run([*command, "bytewax_flow"], environment)
    consumer = Consumer(
        {
            **place.settings,
            "group.id": "bytewax-reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["bytewax-out"])
    found: Counter[tuple[bytes | None, bytes | None]] = Counter()
    while found.total() < 750:
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"{found.total()} of 750"
        assert message.error() is None, message.error()
        found[message.key(), message.value()] += 1
    consumer.close()
    wanted = ((f"word{word}", n) for word in range(_WORDS) for n in range(1, 151))
    assert found == Counter((word.encode(), b"%d" % n) for word, n in wanted)


@both_ways("FastStream", _FASTSTREAM, "handled, republished, read in batches; by both its clients")
def test_faststream(place: Place) -> None:
    python = interpreter(f"faststream[kafka,confluent]=={_FASTSTREAM}")
    for client in ("kafka", "confluent"):
        name = f"faststream-{client}"
        place.create(**{name: 3, f"{name}-out": 2})
        command = [python, "faststream_app.py", place.address, name, client, "300"]
        wanted = f"handled 300 out 300 sum {2 * sum(range(300))}\n"
        assert run(command, place.environment) == wanted, client


@both_ways("kombu", _KOMBU, "Celery's transport: a queue, in order, acknowledged")
def test_kombu(place: Place) -> None:
    python = interpreter(f"kombu[confluentkafka]=={_KOMBU}")
    command = [python, "kombu_queue.py", place.address, "kombu", "20"]
    assert run(command, place.environment) == "in order True\n"


@both_ways("OpenTelemetry", _OPENTELEMETRY, "traces of kafka-python, confluent-kafka")
def test_opentelemetry(place: Place) -> None:
    names = ("kafka-python", "confluent-kafka")
    instrumented = [f"opentelemetry-instrumentation-{each}=={_OPENTELEMETRY}" for each in names]
    python = interpreter(*instrumented, "opentelemetry-sdk", *names)
    said = run([python, "traces.py", place.address, "traces"], place.environment)
    assert said == "kafka-python True\nconfluent-kafka True\n"


@both_ways("Pathway", _PATHWAY, "a count by word that goes on as records come")
def test_pathway(place: Place, tmp_path: Path) -> None:
    python = interpreter(f"pathway=={_PATHWAY}")
    place.create(**{"pathway-in": 3, "pathway-out": 1})
    program = _PROGRAMS / "pathway_job.py"
    with (tmp_path / "output").open("wb") as said:
        process = subprocess.Popen(
            [python, str(program), place.address, "pathway"],
            env={**os.environ, **place.environment},
            stdout=said,
            stderr=said,
        )
    producer = Producer(dict(place.settings))
    consumer = Consumer(
        {
            **place.settings,
            "group.id": "pathway-reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["pathway-out"])
    counts: dict[str, int] = {}
    try:
        for added, wanted in ((500, 100), (250, 150)):
            for number in range(added):
                told = json.dumps({"word": f"word{number % _WORDS}"})
                producer.produce("pathway-in", told)
            assert producer.flush(60) == 0
            while counts != {f"word{word}": wanted for word in range(_WORDS)}:
                message = consumer.poll(_WAIT_S)
                assert message is not None, f"{counts}\n{(tmp_path / 'output').read_text()}"
                assert message.error() is None, message.error()
                change = json.loads(message.value())
                if change["diff"] > 0:
                    counts[change["word"]] = change["count"]
    finally:
        process.kill()
        process.wait()
        consumer.close()


@both_ways("streamz", _STREAMZ, "a topic of three partitions read in batches, once each")
def test_streamz(place: Place) -> None:
    python = interpreter(f"streamz=={_STREAMZ}", "confluent-kafka", "pandas", "setuptools<80")
    place.create(streamz=3)
    producer = Producer(dict(place.settings))
    for number in range(3000):
        producer.produce("streamz", b"%d" % number, partition=number % 3)
    assert producer.flush(60) == 0
    command = [python, "streamz_job.py", place.address, "streamz", "3000"]
    assert run(command, place.environment) == "read 3000 distinct 3000\n"
