"""An embedded store moves into ZooKeeper: what is there then, however often that broke off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kazoo.exceptions import NoNodeError

from drumlin.cli import app
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.metadata import opening
from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.metadata.image import BrokerState, Resource, ResourceType, TopicState
from drumlin.metadata.opening import IN_ZOOKEEPER, open_metadata
from drumlin.metadata.store.store import MetadataStore, UnusableMetadata
from drumlin.metadata.to_zookeeper.stopped_broker import SET_ASIDE, EmbeddedData
from drumlin.metadata.zookeeper.session.session import Session
from drumlin.metadata.zookeeper.znodes import layout, operations, own_layout
from drumlin.storage.directory.directory_lock import DirectoryLock
from drumlin.storage.directory.meta_properties import MetaProperties, encode_meta_properties
from drumlin.zookeeper.connection import ZooKeeperAway
from metadata.conftest import Adopt
from metadata.stores import stores_at
from rig.servers.zookeeper_operator import Operator

pytestmark = pytest.mark.zookeeper

BROKER = Resource(ResourceType.BROKER, "")
GROUP = Resource(ResourceType.GROUP, "a/b.c")
SUBSCRIPTION = Resource(ResourceType.CLIENT_METRICS, "all / of them")
NODE_ID = 7


class Killed(Exception):
    """Stands for `kill -9`."""


class Data:
    """Two log dirs of a broker that is stopped."""

    def __init__(self, directory: Path, cluster_id: str = "cluster-1") -> None:
        self.log_dirs = [directory / "a", directory / "b"]
        self.first = self.log_dirs[0]
        self.topics: dict[str, TopicState] = {}
        self.deleted: list[UUID] = []
        meta = MetaProperties(cluster_id, NODE_ID, None)
        for path in self.log_dirs:
            path.mkdir(parents=True)
            (path / "meta.properties").write_bytes(encode_meta_properties(meta))
        self.change(self._fill)

    def change(self, scenario: Callable[[MetadataStore], Any]) -> None:
        """Start the broker, and stop it."""

        async def run() -> None:
            store = await open_metadata(BrokerConfig(self.settings), SystemClock())
            await store.register_broker(BrokerState(NODE_ID, None, ()))
            await scenario(store)
            self.topics = dict(store.image.topics)
            self.deleted = list(store.deleted_topics)
            self.next_producer_id = (await store.next_producer_id_block()).first + 1000
            await store.close()

        asyncio.run(run())

    async def _fill(self, store: MetadataStore) -> None:
        assert store.adoption is not None
        await store.adoption.note_adopted()
        for name in ("one", "two"):
            await store.create_topic(name, [[NODE_ID]] * 3, {"retention.ms": "5"})
        gone = await store.create_topic("gone", [[NODE_ID]], {})
        await store.delete_topic(gone.topic_id)
        await store.advance_leader_epochs()
        await store.alter_configs(BROKER, lambda _: {"log.retention.ms": "6"})
        await store.alter_configs(GROUP, lambda _: {"consumer.session.timeout.ms": "50000"})
        await store.alter_configs(SUBSCRIPTION, lambda _: {"metrics": "*"})

    @property
    def option(self) -> str:
        return ",".join(map(str, self.log_dirs))

    @property
    def settings(self) -> dict[str, str]:
        return {"log.dirs": self.option, "node.id": str(NODE_ID)}

    def start_in(self, hosts: str) -> None:
        """Start the broker with ZooKeeper, as far as the metadata is concerned."""
        settings = {**self.settings, "zookeeper.connect": hosts}

        async def run() -> None:
            store = await open_metadata(BrokerConfig(settings), SystemClock())
            await store.close()

        asyncio.run(run())


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path / "data")


def check_is_moved(data: Data, hosts: str) -> None:
    """Whoever opens it finds what was in the file."""
    assert not (data.first / FILE_NAME).exists()
    assert (data.first / SET_ASIDE).exists()
    assert all((path / IN_ZOOKEEPER).read_text() == f"{hosts}\n" for path in data.log_dirs)

    async def look(store: MetadataStore) -> None:
        image = store.image
        assert image.cluster_id == "cluster-1"
        assert set(image.topics) == set(data.topics)
        for name, topic in image.topics.items():
            before = data.topics[name]
            assert topic.topic_id == before.topic_id
            assert [(each.leader, each.replicas, each.isr) for each in topic.partitions] == [
                (NODE_ID, (NODE_ID,), (NODE_ID,))
            ] * len(before.partitions)
            assert [each.leader_epoch for each in topic.partitions] == [
                each.leader_epoch + 1 for each in before.partitions
            ]
        assert image.topic_configs("one") == {"retention.ms": "5"}
        assert image.configs(BROKER) == {"log.retention.ms": "6"}
        assert image.configs(GROUP) == {"consumer.session.timeout.ms": "50000"}
        assert image.configs(SUBSCRIPTION) == {"metrics": "*"}
        assert dict(store.deleted_topics) == dict.fromkeys(data.deleted)
        assert (await store.next_producer_id_block()).first == data.next_producer_id

    data.start_in(hosts)
    stores_at(hosts, NODE_ID).run(look)


def test_it_moves(data: Data, adopt: Adopt, chroot: str, operator: Operator) -> None:
    shown = adopt(data, "--dry-run")
    assert (shown.code, shown.err) == (0, "")
    assert "2 topics with 6 partitions" in shown.out
    assert "There is no way back" in shown.out
    assert (data.first / FILE_NAME).exists()
    assert not (data.first / IN_ZOOKEEPER).exists()
    with pytest.raises(NoNodeError):
        operator.get(layout.CLUSTER_ID)
    done = adopt(data, "--json")
    assert (done.code, done.json["moved"], done.json["topics"]) == (0, True, 2)
    check_is_moved(data, chroot)
    again = adopt(data)
    assert (again.code, again.out.count("is there already")) == (0, 1)


def test_a_dry_run_makes_no_chroot(data: Data, adopt: Adopt, chroot: str, zookeeper: Any) -> None:
    assert adopt(data, "--dry-run").code == 0
    top = Operator(zookeeper.address)
    try:
        assert not top.has(f"/{chroot.partition('/')[2]}")
    finally:
        top.close()


# -- killed ------------------------------------------------------------------------------------


class Killer:
    """Lets a session make so many transactions, each alone, and so many changes of files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        commit_all = Session.commit_all

        def commit_some(session: Session, asked: Any) -> Any:
            outcomes = []
            for each in asked:
                self.step()
                outcomes += commit_all(session, [each])
            return outcomes

        def stepping(method: Any) -> Any:
            def run(*args: Any) -> Any:
                self.step()
                return method(*args)

            return run

        monkeypatch.setattr(Session, "commit_all", commit_some)
        monkeypatch.setattr(EmbeddedData, "set_aside", stepping(EmbeddedData.set_aside))
        files = opening.Files
        monkeypatch.setattr(files, "replace_file", stepping(files.replace_file))

    def step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


def run_killed(data: Data, hosts: str) -> bool:
    """Adopt; whether it came to an end."""
    from drumlin.cli.clusters.cluster_adopt import adopt

    try:
        adopt(data.option, hosts, yes=True)
    except Killed:
        return False
    return True


@pytest.mark.parametrize("is_small", [False, True], ids=["whole-topics", "parts-of-topics"])
def test_killed_between_any_two_steps(
    data: Data, chroot: str, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    if is_small:
        monkeypatch.setattr(operations, "_TRANSACTION_BYTES_MAX", 400)
    with monkeypatch.context() as patched:
        killer = Killer(patched)
        ended, steps = False, 0
        while not ended:
            killer.left = 1  # one step further each time, as what is done is not done again
            ended = run_killed(data, chroot)
            steps += 1
            assert steps < 200
            if not ended and steps % 3 == 0:
                killer.left = 10**6
                check_no_wrong_start(data, chroot)
    assert steps > (12 if is_small else 8)
    check_is_moved(data, chroot)


def check_no_wrong_start(data: Data, hosts: str) -> None:
    """It does not start in ZooKeeper, and nobody else does; without, until ZooKeeper has all."""
    if (data.first / FILE_NAME).exists():
        with pytest.raises(UnusableMetadata, match="adopt"):
            data.start_in(hosts)
        if any((path / IN_ZOOKEEPER).exists() for path in data.log_dirs):
            with pytest.raises(UnusableMetadata, match="being moved into ZooKeeper: run"):
                opening.open_embedded(BrokerConfig(data.settings))


@pytest.mark.parametrize("steps", [0, 1, 3, 6])
def test_the_broker_runs_in_between(
    data: Data, chroot: str, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """What is in ZooKeeper then is old, and is replaced; that may be killed as well."""
    with monkeypatch.context() as patched:
        Killer(patched).left = steps
        assert not run_killed(data, chroot)

    async def change(store: MetadataStore) -> None:
        await store.delete_topic(store.image.topics["one"].topic_id)
        await store.create_topic("one", [[NODE_ID]] * 2, {"retention.ms": "5"})
        await store.create_topic("three", [[NODE_ID]], {})
        await store.delete_topic(store.image.topics["two"].topic_id)

    data.change(change)
    with monkeypatch.context() as patched:
        killer, attempts, ended = Killer(patched), 0, False
        while not ended:
            killer.left, attempts = 2, attempts + 1
            assert attempts < 200
            ended = run_killed(data, chroot)
    check_is_moved(data, chroot)


def test_nobody_starts_on_what_is_not_complete(
    data: Data, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        Killer(patched).left = 5
        assert not run_killed(data, chroot)
    with pytest.raises(UnusableMetadata, match="'drumlin cluster adopt' again"):
        stores_at(chroot, 2).run(lambda _: asyncio.sleep(0))


# -- refused -----------------------------------------------------------------------------------


def refusal(adopt: Adopt, data: Data, *more: str) -> str:
    """Why it is not done; and it is not."""
    result = adopt(data, *more)
    assert result.code == 1
    assert (data.first / FILE_NAME).exists() or not data.topics
    assert len(result.err.splitlines()) == 1
    return result.err


def test_a_broker_that_runs(data: Data, adopt: Adopt) -> None:
    lock = DirectoryLock(str(data.log_dirs[1]))
    assert lock.acquire()
    assert "is in use: stop its broker first" in refusal(adopt, data)
    lock.release()
    assert adopt(data).code == 0


def test_data_of_several_brokers(data: Data, adopt: Adopt) -> None:
    (data.first / ".brokers" / "8").mkdir(parents=True)
    assert "go back to one first" in refusal(adopt, data)
    (data.first / ".brokers" / "8").rmdir()
    (data.first / ".brokers").rmdir()

    async def elsewhere(store: MetadataStore) -> None:
        await store.create_topic("both", [[NODE_ID, 8]], {})

    data.change(elsewhere)
    assert "go back to one first" in refusal(adopt, data)


def test_data_that_is_not_a_brokers(data: Data, adopt: Adopt) -> None:
    assert "belongs to broker 7, not 3: a broker keeps its id" in refusal(
        adopt, data, "--node-id", "3"
    )
    data.log_dirs.reverse()
    other = Data.__new__(Data)
    other.log_dirs, other.first, other.topics = data.log_dirs, data.log_dirs[0], {}
    assert f"has no {FILE_NAME}" in refusal(adopt, other)
    other.log_dirs = [data.first / "nowhere"]
    assert "there is no log dir" in refusal(adopt, other)


def test_other_clusters(data: Data, adopt: Adopt, operator: Operator) -> None:
    operator.put(layout.CLUSTER_ID, layout.encode_cluster_id("another"))
    assert "has cluster another, and the data is of cluster cluster-1" in refusal(adopt, data)


def test_topics_of_nobody_knows_which_cluster(data: Data, adopt: Adopt, operator: Operator) -> None:
    operator.put_topic("foreign", (1,))
    assert "not of which cluster" in refusal(adopt, data)


def test_a_broker_of_kafka(data: Data, adopt: Adopt, operator: Operator) -> None:
    operator.put(layout.BROKERS, b"")
    operator.client.create(layout.broker_path(1), b"{}", ephemeral=True)
    assert "broker 1 is registered" in refusal(adopt, data)


def test_the_same_cluster(data: Data, adopt: Adopt, operator: Operator, chroot: str) -> None:
    operator.put(layout.CLUSTER_ID, layout.encode_cluster_id("cluster-1"))
    other = operator.put_topic("one", (NODE_ID,), (NODE_ID,), (NODE_ID,))
    assert "there is another topic one" in refusal(adopt, data)
    one = data.topics["one"]
    assert other != one.topic_id
    wide = layout.encode_topic(one.topic_id, [(NODE_ID,)] * 4)
    operator.put(layout.topic_path("one"), wide)
    assert "topic one has other partitions" in refusal(adopt, data)
    operator.put(layout.topic_path("one"), layout.encode_topic(one.topic_id, [(NODE_ID,)] * 3))
    old = layout.encode_state(layout.StateNode(NODE_ID, 0, (NODE_ID,)))
    operator.put(layout.state_path("one", 0), old)
    for resource, value in ((Resource(ResourceType.TOPIC, "one"), "5"), (BROKER, "1")):
        key = "retention.ms" if resource.name else "log.retention.ms"
        operator.put(layout.config_path(resource), layout.encode_configs({key: value}))
    operator.put(layout.deletion_path("two"), b"")
    assert "topic two is to be deleted" in refusal(adopt, data)
    operator.client.delete(layout.deletion_path("two"))
    assert adopt(data).code == 0
    check_is_moved(data, chroot)


def test_another_chroot_than_the_one_it_went_to(
    data: Data, adopt: Adopt, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        Killer(patched).left = 8  # all is written, and the log dirs say so
        assert not run_killed(data, chroot)
    command = ["cluster", "adopt", "--data", data.option, "--yes", "--zookeeper"]
    assert app.main([*command, f"{chroot}-other"]) == 1
    assert adopt(data).code == 0
    assert app.main([*command, f"{chroot}-other"]) == 1
    check_is_moved(data, chroot)


def test_a_file_that_was_put_back(data: Data, adopt: Adopt) -> None:
    """The cluster may have gone on."""
    assert adopt(data).code == 0
    (data.first / SET_ASIDE).rename(data.first / FILE_NAME)
    for path in data.log_dirs:
        (path / IN_ZOOKEEPER).unlink()
    assert "can only go to another chroot" in refusal(adopt, data)


def test_a_garbled_node(data: Data, adopt: Adopt, operator: Operator) -> None:
    operator.put(own_layout.ADOPTION, b"garbage")
    assert f"ZooKeeper's {own_layout.ADOPTION} cannot be used" in refusal(adopt, data)


def test_no_zookeeper_answers(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drumlin.cli.clusters.cluster_adopt._TIMEOUT_MS", 300)
    arguments = ["--data", data.option, "--zookeeper", "127.0.0.1:1", "--yes"]
    assert app.main(["cluster", "adopt", *arguments]) == 1
    assert (data.first / FILE_NAME).exists()


def test_zookeeper_goes_away_meanwhile(
    data: Data, adopt: Adopt, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        away = ZooKeeperAway("ZooKeeper does not answer")
        patched.setattr(Session, "commit_all", lambda _, asked: [away for _ in asked])
        assert "does not answer; run this again" in refusal(adopt, data)
    assert adopt(data).code == 0
    check_is_moved(data, chroot)


def test_a_topic_of_many_partitions(
    data: Data, adopt: Adopt, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes several transactions."""
    monkeypatch.setattr(operations, "_TRANSACTION_BYTES_MAX", 70_000)

    async def widen(store: MetadataStore) -> None:
        await store.create_topic("wide", [[NODE_ID]] * 900, {})

    data.change(widen)
    assert adopt(data).code == 0
    check_is_moved(data, chroot)
