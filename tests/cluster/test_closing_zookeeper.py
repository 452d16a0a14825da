"""`drumlin cluster secure-zookeeper`: what was open before is the brokers' alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from rig.servers.zookeeper import ZooKeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.deep]

_NODES = ("/brokers/topics/t", "/config/users/alice", "/consumers/old/offsets")


@pytest.fixture
def stranger(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.address)
    client.start()
    client.ensure_path("/to-close")
    client.chroot = "/to-close"
    for path in _NODES:
        client.create(path, b"{}", makepath=True)
    try:
        yield client
    finally:
        client.chroot = ""
        client.add_auth("digest", "drumlin:secret")
        client.add_auth("digest", "another:secret")
        client.delete("/to-close", recursive=True)
        client.stop()
        client.close()


def close(zookeeper: ZooKeeper, config: Path, *more: str) -> Any:
    line = [sys.executable, "-m", "drumlin", "cluster", "secure-zookeeper"]
    line += ["--zookeeper", f"{zookeeper.address}/to-close", "--zookeeper-config", str(config)]
    done = subprocess.run([*line, *more], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def test_nodes_that_were_open_are_closed(
    zookeeper: ZooKeeper, stranger: KazooClient, tmp_path: Path
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("zookeeper.set.acl=true\n")
    assert "who may change the nodes then?" in close(zookeeper, config)
    config.write_text("drumlin.zookeeper.digest=drumlin:secret\n")
    found = close(zookeeper, config, "--dry-run", "--json")
    assert not any(each["is_closed"] for each in found)
    stranger.set("/brokers/topics/t", b"[]")  # nothing has changed
    closed = close(zookeeper, config, "--json")
    paths = [each["node"] for each in closed]
    assert paths == [each["node"] for each in found]
    assert {"/", "/brokers", "/brokers/topics/t", "/config/users/alice"} <= set(paths)
    assert stranger.get("/brokers/topics/t")[0] == b"[]", "everybody may read"
    for path in ("/brokers/topics/t", "/brokers", "/"):
        with pytest.raises(NoAuthError):
            stranger.create(f"{path.rstrip('/')}/mine")
    with pytest.raises(NoAuthError):
        stranger.get("/config/users/alice")
    stranger.set("/consumers/old/offsets", b"7")  # by a consumer of before Kafka 0.9
    assert close(zookeeper, config, "--json") == []


def test_a_node_of_somebody_else_is_told(
    zookeeper: ZooKeeper, stranger: KazooClient, tmp_path: Path
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("drumlin.zookeeper.digest=drumlin:secret\n")
    theirs = make_digest_acl("another", "secret", all=True)
    stranger.set_acls("/config/users/alice", [theirs])
    assert "ZooKeeper refuses /config/users/alice: NoAuthError" in close(zookeeper, config)
