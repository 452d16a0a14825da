"""Who writes into ZooKeeper with tools of their own, beside a broker."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid4

from kazoo.client import KazooClient

from drumlin.metadata.image import Resource
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.zookeeper.connection import close_client, connect


class Operator:
    """Connected to one chroot."""

    def __init__(self, hosts: str) -> None:
        self.client: KazooClient = connect(
            hosts, session_timeout_ms=60_000, connection_timeout_ms=60_000, makes_chroot=True
        )

    def put(self, path: str, data: bytes) -> None:
        if self.client.exists(path):
            self.client.set(path, data)
        else:
            self.client.create(path, data, makepath=True)

    def get(self, path: str) -> bytes:
        data: bytes = self.client.get(path)[0]
        return data

    def has(self, path: str) -> bool:
        return self.client.exists(path) is not None

    def put_configs(self, resource: Resource, configs: Mapping[str, str]) -> None:
        """As Kafka's tools do: the configuration, then the news of it."""
        self.put(layout.config_path(resource), layout.encode_configs(configs))
        change = layout.encode_config_change(resource)
        self.client.create(layout.CONFIG_CHANGE_PREFIX, change, sequence=True)

    def put_topic(self, name: str, *replicas: tuple[int, ...]) -> UUID:
        topic_id = uuid4()
        self.put(layout.topic_path(name), layout.encode_topic(topic_id, replicas))
        return topic_id

    def close(self) -> None:
        close_client(self.client)
