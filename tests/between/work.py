"""What a user with few rights does with brokers that are secured among each other."""

from __future__ import annotations

import hashlib
import os
import random
from contextlib import closing
from typing import Any
from uuid import UUID

from confluent_kafka import Consumer, Producer, TopicPartition

from broker.cluster_clients import PARTITIONS, Security, commit_and_abort, deliver, read
from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.data.secured_between import PASSWORDS, Way
from rig.waiting import wait_until

#: The topic of transactions, and that of a share group.
TOPICS = ("t", "s")
_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_ITERATIONS = 4096
_LARGE, _LARGE_BYTES = 24, 400_000


def prepare(admin_port: int, way: Way, replicas: int) -> None:
    """Topics, users where they are not in the configuration, and the rights of the clients'."""
    with RawClient(admin_port, timeout_s=60) as admin:
        if way.mechanism in _MECHANISMS:
            make_users(admin, way.mechanism)
        grant(admin, way.clients_principal)
        topics = [
            {"name": name, "num_partitions": PARTITIONS, "replication_factor": replicas}
            for name in TOPICS
        ]
        answer = admin.ask("create_topics", 7, topics=topics, timeout=60_000)
        assert [each.error_code for each in answer.topics] == [0] * len(topics), answer
        early = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        group = {"resource_type": 32, "resource_name": "shared", "configs": [early]}
        altered = admin.ask("incremental_alter_configs", 1, resources=[group], validate_only=False)
        assert [each.error_code for each in altered.responses] == [0], altered


def make_users(admin: RawClient, mechanism: str) -> None:
    """All users, with their passwords."""
    number, hash_name = _MECHANISMS[mechanism]
    upsertions = []
    for name, password in PASSWORDS.items():
        salt = os.urandom(16)
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, _ITERATIONS)
        known = {"name": name, "mechanism": number, "iterations": _ITERATIONS}
        upsertions.append({**known, "salt": salt, "salted_password": salted})
    answer = admin.ask("alter_user_scram_credentials", 0, upsertions=upsertions)
    assert [each.error_code for each in answer.results] == [0] * len(upsertions), answer


def grant(admin: RawClient, principal: str) -> None:
    """The rights on topics, groups and transactions that `use` needs."""
    kinds = (Kind.TOPIC, Kind.GROUP, Kind.TRANSACTIONAL_ID)
    creations = [
        {
            "resource_type": kind,
            "resource_name": "*",
            "resource_pattern_type": Pattern.LITERAL,
            "principal": principal,
            "host": "*",
            "operation": Operation.ALL,
            "permission_type": Permission.ALLOW,
        }
        for kind in kinds
    ]
    answer = admin.ask("create_acls", 3, creations=creations)
    assert [each.error_code for each in answer.results] == [0] * len(kinds), answer


def use(bootstrap: str, security: Security, number: int = 0) -> None:
    """Transactions, a group and a share group. `number`: of times before."""
    if not number:
        commit_and_abort(bootstrap, "x", "g", security)
        deliver(bootstrap, "shared", 3, security, "s")
    more = Producer({"bootstrap.servers": bootstrap, "acks": "all", **security})
    for index in range(PARTITIONS):
        more.produce("t", b"more", partition=index)
    assert more.flush(60) == 0
    expected = PARTITIONS * (2 + number + 1)
    assert len(read(bootstrap, expected, security)) == expected


def fill(bootstrap: str, security: Security, number: int) -> set[str]:
    """Records that are larger than what a socket takes at once; their digests."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **security})
    written = set()
    for index in range(_LARGE):
        value = random.Random(number * _LARGE + index).randbytes(_LARGE_BYTES)
        written.add(hashlib.sha256(value).hexdigest())
        producer.produce("s", value, partition=index % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0
    return written


def check_filled(bootstrap: str, security: Security, written: set[str]) -> None:
    """All of it is there, once, and unaltered."""
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", **security})
    found: list[str] = []
    with closing(consumer):
        consumer.assign([TopicPartition("s", index, 0) for index in range(PARTITIONS)])
        while len(found) < len(written):
            messages = consumer.consume(_LARGE, 20)
            assert messages, f"{len(found)} of {len(written)}"
            values = (each.value() for each in messages if each.error() is None)
            found += [hashlib.sha256(each).hexdigest() for each in values if len(each) > 100]
    assert sorted(found) == sorted(written)


def await_whole(admin_port: int, brokers: int) -> None:
    """Every partition has a leader, and all its replicas are in sync."""
    wait_until(lambda: _is_whole(admin_port, brokers), "all replicas to be in sync", 90)


def topic_id(admin_port: int, topic: str) -> UUID:
    with RawClient(admin_port) as admin:
        (known,) = admin.ask("metadata", 12, topics=[{"topic_id": None, "name": topic}]).topics
    found: UUID = known.topic_id
    return found


def _is_whole(admin_port: int, brokers: int) -> bool:
    with RawClient(admin_port, timeout_s=30) as admin:
        known = render(admin.ask("metadata", 12, topics=None))
    partitions = [part for topic in known["topics"] for part in topic["partitions"]]
    return len(known["brokers"]) == brokers and all(
        part["error_code"] == "none" and sorted(part["isr_nodes"]) == sorted(part["replica_nodes"])
        for part in partitions
    )
