"""A real consumer of old: what it commits is read, and it continues from what is written for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Run
from drumlin.client.client import Client
from migration.conftest import append
from migration.old_consumers import OldStore
from rig.servers.old_kafka import HighLevelConsumer, OldKafka
from rig.servers.running import running
from rig.waiting import wait_until

pytestmark = pytest.mark.zookeeper

RECORDS = 100


@pytest.fixture
def old_kafka(store: OldStore, tmp_path: Path) -> Iterator[OldKafka]:
    with running(OldKafka(tmp_path, store.address)) as kafka:
        yield kafka


@pytest.mark.deep
def test_there_and_back(
    run: Run,
    old_kafka: OldKafka,
    store: OldStore,
    client: Client,
    drumlin_address: str,
    name: str,
    tmp_path: Path,
) -> None:
    client.create_topic(name, 1)
    append(client, name, 1, RECORDS)
    old_kafka.produce(name, "".join(f"{n}\n" for n in range(RECORDS)))
    there = ("--zookeeper", store.address, "-b", drumlin_address, "--yes")

    first = HighLevelConsumer(tmp_path, "first", store.address, name)
    second = HighLevelConsumer(tmp_path, "second", store.address, name)
    try:
        first.start(name)
        wait_until(lambda: store.committed(name, name) == {0: RECORDS}, "all to be read", 60)
        refused = run("groups", "import", name, *there)
        assert refused.err.endswith("1 consumer, 1 owned partition\n"), refused.err
        first.stop()
        imported = run("groups", "import", name, *there)
        assert imported.code == 0, imported.err
        described = run("groups", "describe", name, "--json", "-b", drumlin_address).json[0]
        assert [row["committed_offset"] for row in described["offsets"]] == [RECORDS]

        again = run("groups", "reset", name, "--to", "70", "--yes", "-b", drumlin_address)
        assert again.code == 0, again.err
        assert run("groups", "export", name, *there, "--overwrite").code == 0
        second.start(name)
        wait_until(lambda: len(second.lines()) >= RECORDS - 70, "the rest to be read", 60)
        second.stop()
        assert second.lines() == [str(n) for n in range(70, RECORDS)]
    finally:
        first.close()
        second.close()
