"""What high-level consumers of old leave in ZooKeeper, written as they write it."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry


class OldStore:
    """`/consumers` below a chroot."""

    def __init__(self, address: str, client: Any) -> None:
        self.address = address
        self.client = client

    @classmethod
    def create(cls, server: str, chroot: str) -> OldStore:
        with_root = KazooClient(server, timeout=10)
        with_root.start()
        with_root.ensure_path(chroot)
        with_root.stop()
        with_root.close()
        return cls.open(server + chroot)

    @classmethod
    def open(cls, address: str, session_timeout_s: float = 10) -> OldStore:
        patient = KazooRetry(max_tries=30, max_delay=1)
        client = KazooClient(address, timeout=session_timeout_s, command_retry=patient)
        client.start()
        return cls(address, client)

    def close(self) -> None:
        self.client.stop()
        self.client.close()

    def commit(self, group: str, topic: str, partition: int, offset: int | bytes) -> None:
        """As often as it takes: a session may have ended while its server was away."""
        self.client.retry(self._commit, f"/consumers/{group}/offsets/{topic}/{partition}", offset)

    def _commit(self, path: str, offset: int | bytes) -> None:
        data = offset if isinstance(offset, bytes) else str(offset).encode("ascii")
        if self.client.exists(path):
            self.client.set(path, data)
        else:
            self.client.create(path, data, makepath=True)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Like `commit`."""
        found: dict[int, int] = self.client.retry(
            self._committed, f"/consumers/{group}/offsets/{topic}"
        )
        return found

    def _committed(self, path: str) -> dict[int, int]:
        if not self.client.exists(path):
            return {}
        return {
            int(each): int(self.client.get(f"{path}/{each}")[0])
            for each in self.client.get_children(path)
        }

    def register(self, group: str, consumer: str, topic: str, *partitions: int) -> None:
        """As a consumer that runs: its id, and what it owns."""
        root = f"/consumers/{group}"
        self.client.create(f"{root}/ids/{consumer}", b"{}", ephemeral=True, makepath=True)
        for each in partitions:
            path = f"{root}/owners/{topic}/{each}"
            self.client.create(path, consumer.encode(), ephemeral=True, makepath=True)

    def unregister(self, group: str, consumer: str, topic: str, *partitions: int) -> None:
        root = f"/consumers/{group}"
        for each in partitions:
            self.client.delete(f"{root}/owners/{topic}/{each}")
        self.client.delete(f"{root}/ids/{consumer}")
