"""kafkajs and @platformatic/kafka, which share no code with the clients of other languages, and
Confluent's client, which is librdkafka's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ecosystem.admins.steps import differences
from ecosystem.installed import javascript_of_librdkafka, javascript_with
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.running import skipped_where_unavailable

_PROGRAMS = Path(__file__).parent / "programs"
PACKAGES = {
    "kafkajs": ("kafkajs", "2.2.4"),
    "platformatic": ("@platformatic/kafka", "1.35.0"),
    "confluent": ("@confluentinc/kafka-javascript", "1.10.1"),
}
_LIBRDKAFKA = "2.15.0"
_TRIED = "records, groups, administration, compared with Apache Kafka"


def outcomes(
    program: str, address: str, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What came of each step."""
    found: Mapping[str, str] = {}
    if program == "confluent":
        package = "@".join(PACKAGES[program])
        node, folder, found = javascript_of_librdkafka(package, _LIBRDKAFKA)
    else:
        others = (each for name, each in PACKAGES.items() if name != "confluent")
        node, folder = javascript_with(*map("@".join, others))
    command = [node, str(_PROGRAMS / f"{program}.cjs"), str(folder), address, program]
    done = subprocess.run(
        command,
        env={**os.environ, **found, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0 and done.stdout, f"{done.stdout}\n{done.stderr}"
    told: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=pytest.mark.program(*package, _TRIED))
        for program, package in PACKAGES.items()
    ],
)
def test_every_step(program: str, drumlin: DrumlinServer, kafka: ApacheKafka) -> None:
    with skipped_where_unavailable():
        ours = outcomes(program, drumlin.address)
    theirs = outcomes(program, f"127.0.0.1:{kafka.port}")
    print(ours)
    assert not {step: outcome for step, outcome in ours.items() if outcome.startswith("not")}
    assert not differences(ours, theirs)
