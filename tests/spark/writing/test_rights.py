"""The rights of the sink that the documents list: no more are needed, and none less.

Without one of them the write fails with a sentence that names it, and nothing is seen of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import drumlin
from drumlin.client.client import Client
from drumlin.spark import sink
from rig.data.secured_listeners import PASSWORD, Secured
from rig.documents.task_rights import listed, placed
from rig.servers.rights import (
    CREATE,
    GROUP,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Right,
    granted,
)

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.deep]

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')

_JUNE = {"writeId": "june"}

#: By name: the right on a topic to write to, or on the decision topic; what the sentence says.
RIGHTS: dict[str, tuple[Right, str]] = {
    "topic": (Right(TOPIC, "target", WRITE), "topic '{target}'.* as it takes WRITE on the topic"),
    "transactions": (
        Right(TRANSACTIONAL_ID, "drumlin.", WRITE, PREFIXED),
        "Write on transactional ids that begin with 'drumlin.'",
    ),
    "group": (
        Right(GROUP, "drumlin.", READ, PREFIXED),
        "Read on groups that begin with 'drumlin.'",
    ),
    "reading decisions": (
        Right(TOPIC, "decisions", READ),
        "'{decisions}'.* Read and Write on its decision topic",
    ),
    "deciding": (
        Right(TOPIC, "decisions", WRITE),
        "topic '{decisions}'.* as it takes WRITE on the topic",
    ),
    "making the topic": (Right(TOPIC, "decisions", CREATE), "'{decisions}', and .* may neither"),
}


class Names:
    """The topics of one test."""

    def __init__(self, kafka: Secured, administrator: Client) -> None:
        self.kafka = kafka
        self.administrator = administrator
        unique = uuid.uuid4().hex[:8]
        self.target, self.decisions = f"rights-{unique}", f"decisions-{unique}"
        administrator.create_topic(self.target, 2)

    def rights(self, *left_out: str) -> list[Right]:
        places = {"target": self.target, "decisions": self.decisions}
        return [
            right._replace(name=places.get(right.name, right.name))
            for name, (right, _) in RIGHTS.items()
            if name not in left_out
        ]

    @property
    def options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.kafka.addresses["login"],
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{_MODULE} required username="alice" password="{_QUOTED}";',
            "decisionTopic": self.decisions,
            "topic": self.target,
        }

    def committed(self) -> int:
        return len(self.administrator.read(self.target, isolation="read_committed"))


@pytest.fixture
def names(secured: Secured) -> Iterator[Names]:
    with drumlin.connect(f"127.0.0.1:{secured.port}") as administrator:
        yield Names(secured, administrator)


def test_the_rights_are_those_of_the_document() -> None:
    places = {"OUT": "target", "DECISIONS": "decisions"}
    found = {placed(each, places) for each in listed("Spark's sink, exactly once")}
    assert found == {right for right, _ in RIGHTS.values()}


def write(spark: SparkSession, options: dict[str, str]) -> None:
    rows = spark.range(0, 10, 1, 2).selectExpr("string(id) AS value")
    rows.write.format("drumlin").options(**options).mode("append").save()


@pytest.mark.parametrize(
    "missing",
    [pytest.param(each, marks=[] if each == "group" else pytest.mark.deep) for each in RIGHTS],
)
@pytest.mark.parametrize(
    "write_id",
    [pytest.param({}, id="new name", marks=pytest.mark.deep), pytest.param(_JUNE, id="writeId")],
)
def test_a_right_that_is_missing_is_named(
    spark: SparkSession, names: Names, missing: str, write_id: dict[str, str]
) -> None:
    said = RIGHTS[missing][1].format(target=names.target, decisions=names.decisions)
    if missing != "making the topic":
        configs = {"cleanup.policy": "compact"}
        names.administrator.create_topic(names.decisions, 1, configs=configs)
    with granted(names.kafka, *names.rights(missing)), pytest.raises(Exception, match=said):
        write(spark, names.options | write_id)
    assert names.committed() == 0


@pytest.mark.parametrize(
    "write_id",
    [pytest.param({}, id="new name", marks=pytest.mark.deep), pytest.param(_JUNE, id="writeId")],
)
def test_no_more_rights_are_needed(
    spark: SparkSession, names: Names, write_id: dict[str, str]
) -> None:
    with granted(names.kafka, *names.rights()):
        write(spark, names.options | write_id)
    assert names.committed() == 10
    with granted(names.kafka, *names.rights("making the topic")):
        write(spark, names.options | write_id)
    assert names.committed() == (10 if write_id else 20)


@pytest.mark.deep
def test_a_stream_and_its_group(spark: SparkSession, names: Names, tmp_path: Path) -> None:
    """`transactionalGroup` takes Read on the group, and on the topics that were read."""
    source = f"{names.target}-in"
    names.administrator.create_topic(source, 1)
    names.administrator.append(pa.table({"value": ["a", "b"]}), source)
    group = f"{names.target}-group"
    reading, member = Right(TOPIC, source, READ), Right(GROUP, group, READ)

    def run() -> None:
        given = {name: each for name, each in names.options.items() if name != "topic"}
        address = given.pop("kafka.bootstrap.servers")
        write = sink(names.target, bootstrap=address, transactionalGroup=group, **given)
        options = {"subscribe": source, "startingOffsets": "earliest"}
        rows = spark.readStream.format("drumlin").options(**names.options, **options).load()
        writer = rows.select("value").writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    with granted(names.kafka, reading, *names.rights()):
        with pytest.raises(Exception, match=f"group '{group}'.* needs Read on that group"):
            run()
        assert names.committed() == 0
        with granted(names.kafka, member):
            run()
    assert names.committed() == 2
