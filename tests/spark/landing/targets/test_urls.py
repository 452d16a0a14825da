"""Which target a URL names, and what is refused before anything is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drumlin.spark import land
from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.targets.parquet import Lake
from drumlin.spark.landing.targets.target import LandingRefused, Position
from drumlin.spark.landing.targets.urls import check_places, open_target
from drumlin.spark.options.option_values import OptionError

SESSION: Any = None
ADDRESS = "127.0.0.1:9"


@pytest.mark.parametrize(
    ("url", "mode", "why"),
    [
        ("s3://bucket", "append", "expected s3://BUCKET/FOLDER"),
        ("s3:///lake", "append", "expected s3://BUCKET/FOLDER"),
        ("parquet:s3://key:secret@bucket/lake", "append", "a login is in AWS's environment"),
        ("s3://bucket/lake", "upsert", "'t' is to be upserted: .* or into delta:s3://bucket/lake"),
        ("s3a://bucket/lake", "upsert", "or into delta:s3a://bucket/lake"),
        ("delta:", "append", "expected parquet:FOLDER"),
        ("/data/lake", "append", "expected parquet:FOLDER"),
        ("parquet://data/lake", "append", "expected parquet:FOLDER or parquet:///FOLDER"),
        ("parquet:/data/lake?table=t", "append", "expected parquet:FOLDER"),
        ("parquet:file:///data/lake", "append", "expected parquet:FOLDER"),
        ("delta://data/lake", "append", "expected delta:FOLDER"),
        ("parquet:gs://bucket/lake", "append", "gs cannot rename a folder at once: take delta:gs:"),
        ("hdfs:x", "append", "'hdfs:x': expected hdfs://HOST:PORT/FOLDER"),
        ("hdfs:/lake", "append", "expected hdfs://HOST:PORT/FOLDER"),
        ("hdfs://host:8020", "append", "expected hdfs://HOST:PORT/FOLDER"),
        ("hdfs://host:port/lake", "append", "expected hdfs://HOST:PORT/FOLDER"),
        ("hdfs://me:secret@host:8020/lake", "append", "expected hdfs://HOST:PORT/FOLDER"),
        ("parquet:/data/lake", "upsert", "files are appended to only, and 't' is to be upserted"),
        ("iceberg:lake/users", "upsert", "expected iceberg:CATALOG/NAMESPACE.TABLE"),
        ("iceberg:lake/shop.users?bucket=4", "upsert", "expected iceberg:CATALOG/NAMESPACE.TABLE"),
        ("iceberg:lake/shop.users?buckets=0", "upsert", "buckets: expected a positive number"),
        ("postgresql://a:secret@h/d?table=", "append", r"a:\.\.\.@h.*no name of a table"),
        ("mysql://a:secret@h/d", "append", r"a:\.\.\.@h.*expected parquet:FOLDER"),
    ],
)
def test_what_is_no_target_is_refused(url: str, mode: Mode, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        open_target(url, "t", mode)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("parquet:{here}/lake", "lake"),
        ("parquet://{here}/lake", "lake"),
        ("parquet:///{here}/lake", "lake"),
        ("parquet:lake", "lake"),
        ("parquet:{here}/of%20{topic}%3F", "of t?"),
    ],
)
def test_a_folder_is_absolute_or_relative_as_in_a_file_url(
    url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load = tmp_path / folder / "load=00000000"
    load.mkdir(parents=True)
    (load / "_offsets.json").write_text('{"offsets": {"0": 5}, "topic": "t", "topic_id": "id"}')
    target = open_target(url.replace("{here}", str(tmp_path)), "t", "append")
    assert target.position((0,)) == Position("t", "id", {0: 5})


def test_each_topic_has_a_place_of_its_own() -> None:
    check_places("delta:/data/t", ["t"])
    check_places("delta:/data/{topic}", ["t", "u"])
    check_places("postgresql://h/d", ["t", "u"])
    with pytest.raises(ValueError, match=r"one place.*put \{topic\} into it"):
        check_places("delta:/data/t", ["t", "u"])
    with pytest.raises(ValueError, match="one place"):
        check_places("postgresql://h/d?table=t", ["t", "u"])
    with pytest.raises(ValueError, match="no topics"):
        check_places("delta:/data/t", [])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingOffsets": "latest"}, "'startingOffsets' has no place in a landing"),
        ({"kafka.isolation.level": "read_uncommitted"}, "has no place in a landing"),
        ({"maxOffsetsPerTrigger": 5}, "has no place in a landing"),
        ({"batch_offsets": 0}, "batch_offsets=0"),
        ({"every_s": 0}, "every_s=0"),
    ],
)
def test_what_a_landing_says_itself_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises((OptionError, ValueError), match=why):
        land(SESSION, "t", "parquet:/data/lake", bootstrap=ADDRESS, **options)


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    (tmp_path / "_aside").mkdir()
    assert lake.position() is None
    (tmp_path / "load=old").mkdir()
    (tmp_path / "mine.parquet").touch()
    with pytest.raises(LandingRefused, match=r"has files of another program: 'load=old'"):
        lake.position()


def test_a_load_that_tells_no_offsets_is_named(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert lake.position() is None
    load = tmp_path / "load=00000000"
    load.mkdir()
    with pytest.raises(LandingRefused, match=r"load=00000000/_offsets\.json tells no offsets"):
        lake.position()
    (load / "_offsets.json").write_text('{"offsets": {"0": 5}, "topic": "t", "topic_id": "id"}')
    assert lake.position() == Position("t", "id", {0: 5})
