"""bytewax, FastStream, kombu, OpenTelemetry and Pathway, each in a Python of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.installed import python_with
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.running import skipped_where_unavailable

_PROGRAMS = Path(__file__).parent / "programs"
_WAIT_S = 900.0
_BYTEWAX, _FASTSTREAM, _KOMBU, _OPENTELEMETRY = "0.21.1", "0.7.8", "5.7.0", "0.66b1"
_PATHWAY = "0.33.0"
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


def create(address: str, **partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name.replace("_", "-"), count, 1) for name, count in partitions.items()]
    for made in admin.create_topics(topics).values():
        made.result(60)


@pytest.mark.program("bytewax", _BYTEWAX, "a count by key, stopped, its state recovered")
def test_bytewax(drumlin: DrumlinServer, tmp_path: Path) -> None:
    python = interpreter(f"bytewax[kafka]=={_BYTEWAX}")
    create(drumlin.address, bytewax_in=3, bytewax_out=1)
    run([python, "-m", "bytewax.recovery", str(tmp_path), "1"])
    producer = Producer({"bootstrap.servers": drumlin.address})
    for count in (500, 250):
        for number in range(count):
            producer.produce("bytewax-in", b"v", f"word{number % _WORDS}")
        assert producer.flush(60) == 0
        command = [python, "-m", "bytewax.run", "-r", str(tmp_path), "-s", "1", "-b", "0"]
        environment = {"BROKER": drumlin.address, "NAME": "bytewax"}
        run([*command, "bytewax_flow"], environment)
    consumer = Consumer(
        {
            "bootstrap.servers": drumlin.address,
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


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(client, marks=pytest.mark.program("FastStream", _FASTSTREAM, f"{told}, {by}"))
        for told in ("handled, republished, read in batches",)
        for client, by in (("kafka", "by aiokafka"), ("confluent", "by confluent-kafka"))
    ],
)
def test_faststream(client: str, drumlin: DrumlinServer) -> None:
    python = interpreter(f"faststream[kafka,confluent]=={_FASTSTREAM}")
    name = f"faststream-{client}"
    create(drumlin.address, **{name: 3, f"{name}-out": 2})
    said = run([python, "faststream_app.py", drumlin.address, name, client, "300"])
    assert said == f"handled 300 out 300 sum {2 * sum(range(300))}\n"


@pytest.mark.program("kombu", _KOMBU, "Celery's transport: a queue, in order, acknowledged")
def test_kombu(drumlin: DrumlinServer) -> None:
    python = interpreter(f"kombu[confluentkafka]=={_KOMBU}")
    assert run([python, "kombu_queue.py", drumlin.address, "kombu", "20"]) == "in order True\n"


@pytest.mark.program("OpenTelemetry", _OPENTELEMETRY, "traces of kafka-python, confluent-kafka")
def test_opentelemetry(drumlin: DrumlinServer) -> None:
    names = ("kafka-python", "confluent-kafka")
    instrumented = [f"opentelemetry-instrumentation-{each}=={_OPENTELEMETRY}" for each in names]
    python = interpreter(*instrumented, "opentelemetry-sdk", *names)
    said = run([python, "traces.py", drumlin.address, "traces"])
    assert said == "kafka-python True\nconfluent-kafka True\n"


@pytest.mark.program("Pathway", _PATHWAY, "a count by word that goes on as records come")
def test_pathway(drumlin: DrumlinServer, tmp_path: Path) -> None:
    python = interpreter(f"pathway=={_PATHWAY}")
    create(drumlin.address, **{"pathway-in": 3, "pathway-out": 1})
    program = _PROGRAMS / "pathway_job.py"
    with (tmp_path / "output").open("wb") as said:
        process = subprocess.Popen(
            [python, str(program), drumlin.address, "pathway"], stdout=said, stderr=said
        )
    producer = Producer({"bootstrap.servers": drumlin.address})
    consumer = Consumer(
        {
            "bootstrap.servers": drumlin.address,
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
