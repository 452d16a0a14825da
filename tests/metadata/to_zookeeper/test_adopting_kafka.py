"""A Kafka of several brokers moves into ZooKeeper by its metadata log, wherever that broke off.

Steps, and what is refused, are those of an embedded store (`test_adopting.py`).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.kraft import messages
from drumlin.metadata.kraft.log import FOLDER
from drumlin.metadata.opening import IN_ZOOKEEPER
from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.znodes import operations
from drumlin.storage.directory.meta_properties import MetaProperties, encode_meta_properties
from metadata.conftest import Adopt
from metadata.kraft.kafka_log import CLUSTER_ID, config, partition, topic, value, write_segment
from metadata.stores import stores_at
from metadata.to_zookeeper.test_adopting import Killer, run_killed

pytestmark = pytest.mark.zookeeper

ONE, TWO = UUID(int=1 << 70), UUID(int=2 << 70)
#: Brokers 1 to 4, of which 1 has stopped last but one, and one partition is on its way to 4.
_SAID = [
    topic("one", ONE),
    config(2, "one", "retention.ms", "5"),
    partition(ONE, 0, (1, 2, 3), isr=(2, 1), leader=2, leader_epoch=7),
    partition(ONE, 1, (2, 3, 1), isr=(), leader=-1, eligible=(3, 1), last_known=(3,)),
    partition(ONE, 2, (4, 3, 2), isr=(3, 2), leader=3, adding=(4,), removing=(2,)),
    topic("two", TWO),
    partition(TWO, 0, (3,), isr=(), leader=-1, last_known=(3,), leader_epoch=2),
    config(4, "", "log.retention.ms", "6"),
    config(4, "3", "log.cleaner.threads", "2"),
    config(32, "a/b.c", "consumer.session.timeout.ms", "50000"),
    config(16, "metrics", "interval.ms", "1000"),  # of which there is nothing here
    messages.ProducerIds(broker_id=1, broker_epoch=1, next_producer_id=5000),
]


class KafkasData:
    """Two log dirs of a node that is stopped, and its metadata log in a third dir."""

    def __init__(self, directory: Path, node_id: int = 1) -> None:
        self.log_dirs = [directory / "a", directory / "b"]
        self.first, self.metadata = self.log_dirs[0], directory / "metadata"
        meta = encode_meta_properties(MetaProperties(CLUSTER_ID, node_id, None))
        for path in (*self.log_dirs, self.metadata):
            path.mkdir(parents=True)
            (path / "meta.properties").write_bytes(meta)
        self.write(self.first)

    def write(self, place: Path, *more: messages.Message) -> None:
        shutil.rmtree(place / FOLDER, ignore_errors=True)
        write_segment(place / FOLDER, [[value(each)] for each in (*_SAID, *more)])

    @property
    def option(self) -> str:
        return ",".join(map(str, self.log_dirs))


@pytest.fixture
def data(tmp_path: Path) -> KafkasData:
    return KafkasData(tmp_path / "data")


def check_is_moved(data: KafkasData, hosts: str, retention: str = "5") -> None:
    assert all((path / IN_ZOOKEEPER).read_text() == f"{hosts}\n" for path in data.log_dirs)
    assert (data.first / FOLDER).is_dir() or (data.metadata / FOLDER).is_dir()

    async def look(store: MetadataStore) -> None:
        image = store.image
        assert image.cluster_id == CLUSTER_ID
        assert {each.name: each.topic_id for each in image.topics.values()} == {
            "one": ONE,
            "two": TWO,
        }
        found = {
            (name, each.index): (each.replicas, set(each.isr), each.adding, each.removing)
            for name, one in image.topics.items()
            for each in one.partitions
        }
        assert found == {
            ("one", 0): ((1, 2, 3), {1, 2}, (), ()),
            ("one", 1): ((2, 3, 1), {3, 1}, (), ()),
            ("one", 2): ((4, 3, 2), {3, 2}, (4,), (2,)),
            ("two", 0): ((3,), {3}, (), ()),
        }
        assert image.topics["one"].partitions[0].leader_epoch > 7
        assert image.topics["two"].partitions[0].leader_epoch > 2
        assert image.topic_configs("one") == {"retention.ms": retention}
        assert image.broker_configs("") == {"log.retention.ms": "6"}
        assert image.broker_configs("3") == {"log.cleaner.threads": "2"}
        group = Resource(ResourceType.GROUP, "a/b.c")
        assert image.configs(group) == {"consumer.session.timeout.ms": "50000"}
        assert (await store.next_producer_id_block()).first >= 5000

    stores_at(hosts, 9).run(look)


def test_a_cluster_moves(data: KafkasData, adopt: Adopt, chroot: str) -> None:
    shown = adopt(data, "--dry-run")
    assert (shown.code, shown.err) == (0, "")
    assert "2 topics with 4 partitions" in shown.out
    assert "up to offset 12 of epoch 1" in shown.out
    assert not (data.first / IN_ZOOKEEPER).exists()
    done = adopt(data, "--json")
    assert (done.code, done.json["moved"], done.json["metadata_end_offset"]) == (0, True, 12)
    check_is_moved(data, chroot)
    again = adopt(data)
    assert (again.code, again.out.count("is there already")) == (0, 1)


@pytest.mark.parametrize("is_small", [False, True], ids=["whole-topics", "parts-of-topics"])
def test_a_cluster_moves_though_killed_between_any_two_steps(
    data: KafkasData, chroot: str, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    if is_small:
        monkeypatch.setattr(operations, "_TRANSACTION_BYTES_MAX", 400)
    with monkeypatch.context() as patched:
        killer = Killer(patched)
        ended, steps = False, 0
        while not ended:
            killer.left = 1
            ended = run_killed(data, chroot)
            steps += 1
            assert steps < 200
    assert steps > (8 if is_small else 6)
    check_is_moved(data, chroot)


def test_kafka_has_run_on_meanwhile(
    data: KafkasData, adopt: Adopt, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        Killer(patched).left = 5
        assert not run_killed(data, chroot)
    assert not (data.first / IN_ZOOKEEPER).exists()
    data.write(data.first, config(2, "one", "retention.ms", "8"))
    assert adopt(data).code == 0
    check_is_moved(data, chroot, "8")


def test_two_nodes_are_not_mixed(
    tmp_path: Path, data: KafkasData, adopt: Adopt, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        Killer(patched).left = 3
        assert not run_killed(data, chroot)
    other = adopt(KafkasData(tmp_path / "other", node_id=2))
    assert other.code == 1
    assert "the data of broker 1 is being moved" in other.err


def test_the_metadata_log_may_lie_elsewhere(data: KafkasData, adopt: Adopt, chroot: str) -> None:
    shutil.rmtree(data.first / FOLDER)
    data.write(data.metadata)
    assert "has no drumlin-metadata.sqlite, nor" in adopt(data).err
    assert adopt(data, "--metadata-log-dir", str(data.metadata)).code == 0
    check_is_moved(data, chroot)


def test_what_is_damaged_is_refused(data: KafkasData, adopt: Adopt) -> None:
    path = data.first / FOLDER / f"{0:020d}.log"
    written = bytearray(path.read_bytes())
    written[90] ^= 1
    path.write_bytes(written)
    refused = adopt(data)
    assert refused.code == 1
    assert f"{path} is damaged at position" in refused.err
    assert not (data.first / IN_ZOOKEEPER).exists()
