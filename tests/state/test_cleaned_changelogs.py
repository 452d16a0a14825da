"""A store that follows a changelog while it is cleaned is exact for its next owner."""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import drumlin
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.state.changelog import Changelog
from drumlin.state.changelog_format import POSITION_KEY, Position, changelog_name, position_value
from drumlin.state.disk_store import DiskStore
from drumlin.state.stores import MemoryStore, Store
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.data.compacted_topic import COMPACTED
from rig.depth import seeds, so_many
from rig.waiting import wait_until

KEYS = [b"key-%d" % number for number in range(40)]
ROUNDS = so_many(12, 60)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = {"log.cleaner.backoff.ms": "10"}
    with running_server(tmp_path_factory.mktemp("cleaned"), settings) as server:
        yield server


class Written:
    """A changelog, and what it should give."""

    def __init__(self, client: Client, seed: int, delete_retention_ms: int) -> None:
        self.random = random.Random(seed)
        self.client = client
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.state: dict[bytes, bytes] = {}
        self.commits = 0
        self.delete_retention_ms = delete_retention_ms
        self.topic = changelog_name(self.group, "s")
        configs = COMPACTED | {"delete.retention.ms": delete_retention_ms}
        client.create_topic(self.topic, 1, configs=configs)
        self.changelog = Changelog(client, self.group, "s")
        self.changelog.identify()

    def commit(self) -> None:
        """Some puts and deletes; some of the transactions are aborted."""
        rng = self.random
        changes: dict[bytes, bytes | None] = {}
        for _ in range(rng.randint(1, 60)):
            key = rng.choice(KEYS)
            changes[key] = None if rng.random() < 0.4 else b"%d" % rng.randrange(10**9) * 30
        self.write(changes, is_committed=rng.random() < 0.8)

    def write(self, changes: dict[bytes, bytes | None], *, is_committed: bool = True) -> None:
        self.commits += 1
        position = Position(self.group, "input", "", self.commits)
        rows = changes | {POSITION_KEY: position_value([position], str(self.commits))}
        with self.client.transaction(f"{self.group}-s-writer") as transaction:
            transaction.append({"key": [*rows], "value": [*rows.values()]}, self.topic)
            if not is_committed:
                transaction.abort()
        if is_committed:
            self.state |= {key: value for key, value in changes.items() if value is not None}
            for key, value in changes.items():
                if value is None:
                    self.state.pop(key, None)

    def until_cleaned(self) -> None:
        """Commit until the cleaner has gone on."""
        before = self.cleaned_to()

        def is_cleaned() -> bool:
            self.commit()
            return self.cleaned_to() > before

        wait_until(is_cleaned, "the cleaner")

    def cleaned_to(self) -> int:
        return lowlevel.exact_from(self.client, self.topic)[0]

    def follow(self, store: Store) -> None:
        with self.tombstones_may_go():
            self.changelog.follow(0, store, self.changelog.ends([0])[0], lambda: False)

    def take_over(self, store: Store) -> None:
        self.changelog.await_former_owners([0])
        with self.tombstones_may_go():
            self.changelog.restore(0, store)
            assert dict(store.scan(b"")) == self.state

    def tombstones_may_go(self) -> contextlib.AbstractContextManager[None]:
        """What is read while tombstones go is refused."""
        if self.delete_retention_ms:
            return contextlib.nullcontext()
        return contextlib.suppress(drumlin.StateNotExact)


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("delete_retention_ms", [120_000, 0], ids=["kept", "gone"])
def test_followed_and_cleaned(
    broker: DrumlinServer, tmp_path: Path, seed: int, delete_retention_ms: int, loaded: list[int]
) -> None:
    with drumlin.connect(broker.address) as client:
        written = Written(client, seed, delete_retention_ms)
        rng = written.random
        stores: list[Store] = [MemoryStore(), DiskStore(tmp_path / "0.sqlite")]
        written.until_cleaned()
        for store in stores:
            written.follow(store)
        loaded.clear()
        for _ in range(ROUNDS):
            for _ in range(rng.randint(0, 6)):
                written.commit()
            if rng.random() < 0.5:
                written.follow(rng.choice(stores))
            if rng.random() < 0.2:
                written.take_over(rng.choice(stores))
        written.until_cleaned()
        for store in stores:
            written.take_over(store)
        if delete_retention_ms:
            assert loaded == []
        stores[1].close()
