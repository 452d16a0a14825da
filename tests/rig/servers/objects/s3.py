"""A store with the interface of S3, in this process: Moto's, on loopback.

Who asks it from this process must not hold the interpreter's lock, as `deltalake` does when it
writes a file: tasks of Spark do that.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

import boto3
import pytest
from moto.server import ThreadedMotoServer

REGION: Final = "eu-central-1"
LOGIN: Final = {"access_key_id": "somebody", "secret_access_key": "a-secret"}


class Bucket(NamedTuple):
    """A new bucket, and where it is."""

    name: str
    endpoint: str
    client: Any

    def url(self, folder: str) -> str:
        return f"s3://{self.name}/{folder}"

    def read(self, name: str) -> bytes:
        return self.client.get_object(Bucket=self.name, Key=name)["Body"].read()

    def write(self, name: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=name, Body=data)

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=name)

    def names(self, folder: str) -> list[str]:
        """The objects below a folder, relative to it."""
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=f"{folder}/")
        return [each["Key"].removeprefix(f"{folder}/") for each in found.get("Contents", [])]


@contextmanager
def running_s3() -> Iterator[str]:
    """The endpoint of one that runs meanwhile."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it tells of each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def environment(endpoint: str) -> dict[str, str]:
    """By which AWS's tools find it, and nothing of the machine's own."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": LOGIN["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": LOGIN["secret_access_key"],
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def new_bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket that this process and its children find by their environment."""
    for name, each in environment(endpoint).items():
        monkeypatch.setenv(name, each)
    bucket = Bucket(f"lake-{uuid.uuid4().hex[:8]}", endpoint, _client(endpoint))
    where = {"LocationConstraint": REGION}
    bucket.client.create_bucket(Bucket=bucket.name, CreateBucketConfiguration=where)
    return bucket


@cache
def _client(endpoint: str) -> Any:
    login = {f"aws_{name}": each for name, each in LOGIN.items()}
    return boto3.client("s3", endpoint_url=endpoint, region_name=REGION, **login)
