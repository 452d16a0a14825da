"""Spark's own Kafka connector: what our Spark source replaces must work as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rig.jvm.java import spark_environment
from rig.jvm.spark_connector import connector_jars
from rig.servers.running import skipped_where_unavailable

pytestmark = [pytest.mark.clients, pytest.mark.spark, pytest.mark.kafka]

_JOB = Path(__file__).with_name("spark_kafka_job.py")


@pytest.mark.deep  # at each commit it reads and writes in tests/spark, beside ours
def test_batch_and_stream(bootstrap: str, unique: Callable[[str], str]) -> None:
    with skipped_where_unavailable():
        jars = connector_jars()
    source, target = unique("source"), unique("target")
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    for number in range(1000):
        producer.produce(source, key=b"k", value=b"%d" % number)
    assert producer.flush(20) == 0
    job = [sys.executable, str(_JOB), jars, bootstrap, source, target]
    environment = {**os.environ, **spark_environment()}
    done = subprocess.run(
        job, capture_output=True, text=True, timeout=180, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"read": 1000, "written": 1000}
