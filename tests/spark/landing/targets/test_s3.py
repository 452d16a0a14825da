"""A lake in S3, as its interface has it: requests, logins, and what readers of Parquet find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import moto.settings
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from drumlin.spark.landing.rows import small_files
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.delta import Table
from drumlin.spark.landing.targets.s3_lake import folder as s3_folder
from drumlin.spark.landing.targets.s3_lake.lake import S3Lake
from drumlin.spark.landing.targets.s3_lake.session import options_for_delta
from drumlin.spark.landing.targets.target import (
    LandingRefused,
    OtherRun,
    Position,
    StoreUnavailable,
)
from rig.servers.objects.s3 import Bucket, new_bucket, running_s3
from spark.landing.targets.local_batch import LocalBatch, records
from spark.landing.targets.s3_lake import Loads


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running_s3() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return new_bucket(endpoint, monkeypatch)


@pytest.mark.deep
def test_readers_of_parquet_take_it_as_it_is(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And merged, and by two runs of which one fails."""
    loads = Loads(bucket.url("lake"))
    late = loads.lake()
    for _ in range(3):
        loads.land()
    with pytest.raises(OtherRun, match="another run has made load=00000000"):
        batch = LocalBatch(Rows.of("append"), records(0, range(2)))
        late.add(batch, Position("t", "id", {0: 2, 1: 0}))
    monkeypatch.setattr(small_files, "FEW", 2)
    loads.lake().compact()
    loads.check()
    files = fs.S3FileSystem(
        endpoint_override=bucket.endpoint.removeprefix("http://"), scheme="http"
    )
    found = ds.dataset(f"{bucket.name}/lake", filesystem=files, partitioning="hive").to_table()
    assert sorted(found["offset"].to_pylist()) == sorted(2 * [*range(6)])
    assert set(found["load"].to_pylist()) == {2, 3}
    assert not [name for name in bucket.names("lake") if name.startswith("_aside")]


def test_a_file_of_many_parts_is_there_when_it_is_closed(bucket: Bucket) -> None:
    folder = s3_folder.S3Folder(bucket.url("lake"), S3Account())
    name, stream = folder.create("large")
    for _ in range(5):
        stream.write(b"x" * (4 << 20))
    assert not bucket.names("lake")
    stream.close()
    assert stream.tell() == len(folder.read(name)) == 20 << 20
    folder.copy({f"copies/{each}": name for each in range(3)})
    assert bucket.names("lake") == ["copies/0", "copies/1", "copies/2", "large"]
    with pytest.raises(FileNotFoundError):
        folder.copy({"copies/3": "none"})
    folder.delete([*bucket.names("lake"), "none"])
    assert not bucket.names("lake")


def test_a_profile_for_delta(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would look for the machine's role by itself."""
    login = tmp_path / "credentials"
    login.write_text("[lander]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(login))
    monkeypatch.setenv("AWS_PROFILE", "lander")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    url = bucket.url("table")
    table = Table(url, "append", None, options_for_delta(url, S3Account()))
    assert table.position([0]) is None


def test_a_login_of_aws_files_or_of_its_own(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    with pytest.raises(LandingRefused, match="no credentials of AWS are found: set AWS_ACCESS_KEY"):
        Loads(bucket.url("lake")).lake()
    config, login = tmp_path / "config", tmp_path / "credentials"
    config.write_text(f"[profile lander]\nregion = x\nendpoint_url = {bucket.endpoint}\n")
    login.write_text("[lander]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(login))
    monkeypatch.setenv("AWS_PROFILE", "lander")
    loads = Loads(bucket.url("lake"))
    loads.land()
    loads.check()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(LandingRefused, match=r"profile \(nobody\) could not be found"):
        loads.lake()
    monkeypatch.delenv("AWS_PROFILE")
    given = {"endpoint": bucket.endpoint, "access_key_id": "a", "secret_access_key": "b"}
    lake = S3Lake(loads.url, S3Account.of(given))
    assert lake.position() == Position("t", "id", {0: 2, 1: 2})
    monkeypatch.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)  # it knows nobody
    with pytest.raises(LandingRefused, match=r"S3 refuses this login.*: InvalidAccessKeyId"):
        lake.position()
    with pytest.raises(LandingRefused, match=r"S3 refuses this login.*: InvalidAccessKeyId"):
        Table(
            loads.url, "append", None, options_for_delta(loads.url, S3Account.of(given))
        ).position([0])


def test_what_is_wrong_with_a_place_is_named(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = S3Lake("s3://there-is-none/lake", S3Account())
    with pytest.raises(LandingRefused, match="s3://there-is-none/lake: there is no such bucket"):
        missing.position()
    monkeypatch.setattr(s3_folder, "_RETRIES", 0)
    given = S3Account.of({"endpoint": "http://127.0.0.1:9", "region": "x"})
    with pytest.raises(StoreUnavailable, match=r"s3://b/lake: .*error sending request"):
        S3Lake("s3://b/lake", given).position()
    options = options_for_delta("s3://there-is-none/t", S3Account())
    with pytest.raises(LandingRefused, match="s3://there-is-none/t: there is no such bucket"):
        Table("s3://there-is-none/t", "append", None, options).position([0])
    with pytest.raises(ValueError, match="'endpoint_url' is unknown: expected endpoint, region"):
        S3Account.of({"endpoint_url": "x"})
    with pytest.raises(ValueError, match="belong together"):
        S3Account.of({"access_key_id": "x"})


def test_a_secret_is_not_told() -> None:
    given = {"access_key_id": "somebody", "secret_access_key": "a-secret"}
    assert "a-secret" not in f"{S3Account.of(given)!r} {S3Account.of(given)}"
