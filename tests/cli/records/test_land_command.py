"""`drumlin land`: what it says before it starts Spark. `tests/examples` lands."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.objects.s3 import new_bucket, running_s3


@pytest.fixture
def topic(cluster: DrumlinServer) -> str:
    name = f"landed-{uuid.uuid4().hex[:8]}"
    with drumlin.connect(cluster.address) as client:
        client.create_topic(name, 2)
        client.append(
            pa.table({"value": ["a", "b", "c"]}), topic=name, partition=lambda *_: [1] * 3
        )
    return name


def test_how_far_a_landing_is(topic: str, run: Run, tmp_path: Path) -> None:
    to = f"parquet:{tmp_path}"
    found = run("land", "--topics", topic, "--to", to, "--status", "--json").json
    assert [(row["partition"], row["position"], row["end"], row["lag"]) for row in found] == [
        (0, None, 0, 0),
        (1, None, 3, 3),
    ]
    assert {row["mode"] for row in found} == {"append"}
    assert not list(tmp_path.iterdir())


def test_a_file_says_it_and_the_command_line_comes_first(
    topic: str, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "landing.properties"
    path.write_text(f"topics={topic}\nto=parquet:{tmp_path}/one\nevery.seconds=5\n")
    given = ("land", "--properties", str(path), "--status")
    assert run(*given).rows[0][-1] == f"parquet:{tmp_path}/one"
    assert run(*given, "--to", f"parquet:{tmp_path}/other").rows[0][-1].endswith("/other")


def test_what_is_wrong_with_a_file_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "landing.properties"
    path.write_text("topic=t\n")
    told = run("land", "--properties", str(path)).err
    assert "topic: unknown here; there are bad.records, batch.offsets" in told
    path.write_text("topics=t\nto=delta:x\nbatch.offsets=many\n")
    told = run("land", "--properties", str(path)).err
    assert "batch.offsets: expected a positive number, not 'many'" in told
    path.write_text("topics=t\nto=delta:x\nsecurity.protocol=PIGEON\n")
    assert "security.protocol" in run("land", "--properties", str(path)).err
    assert "say --to" in run("land", "--topics", "t").err


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("--format json --schema id:lung", "schema: 'id:lung': 'id' has the unknown type 'lung'"),
        ("--format json --schema id:int,ID:int", "two fields for a column 'ID'"),
        ("--format json", "format='json' needs a schema"),
        ("--format avro", "format='avro' needs a schema, or a registry that has it"),
        ("--format avro --schema {", "schema: not an Avro schema"),
        ("--format json --schema id:int --subject s", "a subject needs a registry"),
        ("--schema id:int", "schema: of use only with a format"),
        ("--bad-records drop", "bad_records: of use only with a format"),
        ("--format avro --registry there", "a schema registry's url is http:"),
        ("--metrics-listener there", "metrics cannot be served at 'there'"),
        ("--partition-by week", "'week' is not one of 'day', 'hour'"),
    ],
)
@pytest.mark.parametrize("status", [(), ("--status",)])
def test_what_is_wrong_is_named_before_spark_starts(
    given: str, why: str, status: tuple[str, ...], topic: str, run: Run, tmp_path: Path
) -> None:
    to = f"parquet:{tmp_path}/lake"
    done = run("land", "--topics", topic, "--to", to, *given.split(), *status)
    assert done.code != 0
    assert why in done.err
    assert "Spark" not in done.err
    assert len(done.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mode=replace", "mode='replace': expected one of append, upsert"),
        ("partition.by=week", "partition_by='week': expected one of day, hour"),
        ("values.format=xml", "format='xml': expected one of json, avro, protobuf"),
        ("bad.records=eat", "bad_records='eat': expected one of"),
        ("registry.user=me", "registry.user: of use only with registry.url"),
        ("patience.seconds=long", "patience.seconds: expected a positive number"),
    ],
)
def test_values_in_a_file_are_checked(line: str, why: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "landing.properties"
    path.write_text(f"topics=t\nto=parquet:x\n{line}\n")
    assert why in run("land", "--properties", str(path), "--status").err


def test_nothing_is_tried_again_where_it_is_not_to_be(topic: str, run: Run, tmp_path: Path) -> None:
    given = ("--topics", topic, "--to", f"parquet:{tmp_path}", "--patience", "0", "--status")
    assert run("land", *given).rows


def test_what_a_library_says_is_one_line(topic: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text("garbage")
    given = ("--topics", topic, "--to", f"delta:{tmp_path}", "--status")
    done = run("land", *given)
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert line.startswith(f"drumlin: delta:{tmp_path}: ")
    assert "unknown" not in line
    assert "unexpected)" not in line


def test_a_password_is_not_for_everybody_to_see(run: Run) -> None:
    done = run("land", "--topics", "t", "--to", "postgresql://a:secret@h/d")
    assert done.code == 2
    assert "others see a password here" in done.err
    assert "secret" not in done.err


def test_a_topic_that_was_made_anew_is_refused(
    topic: str, run: Run, cluster: DrumlinServer, tmp_path: Path
) -> None:
    load = tmp_path / "load=00000000"
    load.mkdir()
    told = {"topic": topic, "topic_id": "another", "offsets": {"1": 2}}
    (load / "_offsets.json").write_text(json.dumps(told))
    done = run("land", "--topics", topic, "--to", f"parquet:{tmp_path}")
    assert done.code == 1
    assert "created again. Nothing was landed" in done.err


def test_a_lake_in_s3(topic: str, run: Run, tmp_path: Path) -> None:
    """The login is in a file; what is wrong is said before Spark starts."""
    with running_s3() as endpoint, pytest.MonkeyPatch.context() as patched:
        bucket = new_bucket(endpoint, patched)
        patched.delenv("AWS_ENDPOINT_URL")
        patched.delenv("AWS_ACCESS_KEY_ID")
        path = tmp_path / "landing.properties"
        path.write_text(
            f"topics={topic}\nto=s3://none-of-that-name/lake\ns3.endpoint={endpoint}\n"
            "s3.region=eu-central-1\ns3.access.key.id=a\ns3.secret.access.key=a-secret\n"
        )
        given = ("land", "--properties", str(path), "--status")
        done = run(*given)
        assert done.err == "drumlin: s3://none-of-that-name/lake: there is no such bucket\n"
        (row, _) = run(*given, "--to", bucket.url("{topic}"), "--json").json
        assert (row["position"], row["to"]) == (None, bucket.url(topic))
        refused = run(*given, "--to", bucket.url("lake"), "--mode", "upsert").err
        assert f"or into delta:{bucket.url('lake')}" in refused
        told = run("land", "--topics", topic, "--to", bucket.url("lake"), "--status").err
        assert "no credentials of AWS are found" in told
