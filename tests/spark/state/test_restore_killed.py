"""Restores by Spark that are killed: run again, they write nothing twice, and all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from drumlin.client.errors import NotRestored
from drumlin.spark import restore
from rig.jvm.java import spark_environment
from rig.waiting import wait_until
from spark.state.history import History
from spark.state.restored_topics import TINY, committed, log_of, middle, state_in

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]

#: In each Python process of a Spark program: says that it is about to do something, and waits.
HALTING = """
import os, time
from pathlib import Path
from drumlin.client.transactions.transaction import Transaction
from drumlin.spark.writing.performer import Performer

def halt_at(place, owner, name):
    original = getattr(owner, name)
    def maybe(self, *arguments):
        if place in repr((type(self).__name__, *arguments)):
            Path(os.environ["HALT_FOLDER"], "here").touch()
            time.sleep(600)
        return original(self, *arguments)
    setattr(owner, name, maybe)

halt_at(os.environ["HALT_AT"], Performer, "perform")
halt_at(os.environ["HALT_AT"], Transaction, "send_offsets")
"""

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from drumlin.spark import restore
from drumlin.spark.java import ensure_java

address, topic, target, options = sys.argv[1:]
ensure_java()
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
at = {int(key): value for key, value in json.loads(options).pop("at").items()}
restore(spark, topic, target, bootstrap=address, **json.loads(options) | {"at": at})
"""


def kill_at(place: str, history: History, target: str, folder: Path, **more: Any) -> None:
    """Run a restore until one of its processes is about to do this; then kill all of them."""
    (folder / "sitecustomize.py").write_text(HALTING)
    options = json.dumps(TINY | more | {"at": middle(history)})
    paths = os.pathsep.join([str(folder), str(ROOT / "src")])
    halting = {"PYTHONPATH": paths, "HALT_AT": place, "HALT_FOLDER": str(folder)}
    arguments = [history.topic.address, history.topic.name, target, options]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, **spark_environment(), **halting, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as program:
        try:
            wait_until(lambda: _is_there(folder, program), f"a restore to come to {place}", 120)
        finally:
            top = psutil.Process(program.pid)
            for each in [*top.children(recursive=True), top]:
                each.send_signal(signal.SIGKILL)


def _is_there(folder: Path, program: subprocess.Popen[bytes]) -> bool:
    assert program.poll() is None, "the program has ended"
    return (folder / "here").exists()


@pytest.mark.parametrize(
    "place, was_there",
    [
        pytest.param("CommitDriver", False, id="before the decision", marks=pytest.mark.deep),
        pytest.param("CommitAll", True, id="after the decision", marks=pytest.mark.deep),
        pytest.param('"to"', True, id="before the marker", marks=pytest.mark.deep),
    ],
)
def test_a_killed_program(
    spark: SparkSession,
    history: History,
    client: Client,
    target: str,
    tmp_path: Path,
    place: str,
    was_there: bool,
) -> None:
    source, address, ends = history.topic.name, history.topic.address, middle(history)
    kill_at(place, history, target, tmp_path)
    assert client.read(target).num_rows >= len(history.state(ends))
    with pytest.raises(NotRestored, match="Spark has begun to restore"):
        client.restore(source, target, at=ends)
    with pytest.raises(NotRestored, match="is being restored from the state of"):
        restore(spark, source, target, bootstrap=address)

    def again() -> bool:
        return restore(spark, source, target, bootstrap=address, at=ends, **TINY).was_there

    assert again() == was_there
    assert state_in(client, target) == history.state(ends)
    assert again()
    assert client.restore(source, target, at=ends).was_there
    assert state_in(client, target) == history.state(ends)


@pytest.mark.deep
def test_a_killed_restore_of_records(
    spark: SparkSession, history: History, client: Client, target: str, tmp_path: Path
) -> None:
    source, address, ends = history.topic.name, history.topic.address, middle(history)
    kill_at("CommitDriver", history, target, tmp_path, records=True)
    wanted = log_of(client, source, ends)
    for record_count in (len(wanted), 0):
        report = restore(spark, source, target, bootstrap=address, at=ends, records=True, **TINY)
        assert (report.record_count, report.was_there) == (record_count, not record_count)
        assert committed(client, target) == wanted


@pytest.mark.deep
def test_what_was_decided_and_has_timed_out_is_written_again(
    spark: SparkSession, history: History, client: Client, target: str, tmp_path: Path
) -> None:
    source, address, ends = history.topic.name, history.topic.address, middle(history)
    kill_at("CommitAll", history, target, tmp_path)
    for each in client.list_transactions():
        if target in each.transactional_id and each.state == "Ongoing":
            client.transaction(each.transactional_id).abort()  # as a broker does then
    assert committed(client, target) == []
    wanted = history.state(ends)
    report = restore(spark, source, target, bootstrap=address, at=ends, **TINY)
    assert (report.record_count, report.was_there) == (len(wanted), False)
    assert state_in(client, target) == wanted
