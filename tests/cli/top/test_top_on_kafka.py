"""`drumlin top` and `drumlin doctor` on Apache Kafka, today's and an older one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.older_kafka import OlderKafka
from rig.servers.running import running

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.deep]


@pytest.fixture(params=["4.3", "3.0"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    kafka = ApacheKafka(tmp_path, {}) if request.param == "4.3" else OlderKafka("3.0", tmp_path, {})
    with running(kafka) as found:
        yield f"127.0.0.1:{found.port}"


def test_on_apache_kafka(run: Run, address: str) -> None:
    with drumlin.connect(address) as client:
        client.create_topic("read", 3)
        client.append(pa.table({"value": ["a"] * 100}), "read")
        client.commit_offsets("group", {("read", 0): 0, ("read", 1): 0, ("read", 2): 0})
    found = run("top", "--once", "--interval", "0.5", "--json", "-b", address).json
    (topic,) = (each for each in found["topics"] if each["topic"] == "read")
    assert (topic["partitions"], topic["records_in_per_s"]) == (3, 0)
    assert topic["size_bytes"] > 0
    (group,) = found["groups"]
    assert (group["group"], group["lag"]) == ("group", 100)
    (broker,) = found["brokers"]
    assert broker["size_bytes"] >= topic["size_bytes"]
    result = run("doctor", "--seconds", "0", "--json", "-b", address)
    checks = {each["check"] for each in result.json}
    # The older one does not know all keys that it is started with.
    assert checks <= {"single-replica", "disk-full", "key-without-effect"}, result.json
