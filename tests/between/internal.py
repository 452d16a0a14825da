"""What only brokers may ask of a broker of a cluster, as another user asks it."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from drumlin.broker.apis.served import SERVED
from drumlin.wire.messages import API_KEYS
from rig.data.raw import Closed, RawClient
from rig.data.secured_between import CLIENT, PASSWORDS
from rights.refusals import refusals

_TOPIC_DENIED, _CLUSTER_DENIED = 29, 31
#: Of Kafka's brokers and controllers among each other, up to those of KIP-853.
_KEYS_MAX = 96
_PARTITION = {
    "partition": 0,
    "current_leader_epoch": -1,
    "fetch_offset": 0,
    "log_start_offset": -1,
    "partition_max_bytes": 1 << 20,
    "last_fetched_epoch": -1,
}


def log_in(port: int) -> RawClient:
    """A connection on which the clients' user has logged in by PLAIN."""
    client = RawClient(port)
    assert client.ask("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
    token = f"\0{CLIENT}\0{PASSWORDS[CLIENT]}".encode()
    assert client.ask("sasl_authenticate", 2, auth_bytes=token).error_code == 0
    return client


def _asked(topic: str, topic_id: UUID) -> list[tuple[str, int, dict[str, Any]]]:
    state = {
        "group_id": "shared",
        "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0}]}],
    }
    marker = {
        "producer_id": 0,
        "transaction_result": True,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "coordinator_epoch": 1 << 20,
    }
    fetched = {
        "replica_id": 1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [_PARTITION]}],
    }
    added = {"transactional_id": "x", "producer_id": 0, "verify_only": True, "topics": []}
    key = f"shared:{topic_id}:0"
    return [
        ("fetch", 12, fetched),
        ("write_txn_markers", 1, {"markers": [marker]}),
        ("add_partitions_to_txn", 4, {"transactions": [added]}),
        ("find_coordinator", 6, {"coordinator_keys": [key], "key_type": 2}),
        ("initialize_share_group_state", 0, state),
        ("read_share_group_state", 0, state),
        ("read_share_group_state_summary", 0, state),
        ("write_share_group_state", 0, state),
        ("delete_share_group_state", 0, state),
    ]


def check_refused(port: int, topic: str, topic_id: UUID) -> None:
    """All of it is refused to a user who may do everything with topics, groups and transactions."""
    with log_in(port) as client:
        for api, version, fields in _asked(topic, topic_id):
            answer = client.ask(api, version, **fields)
            assert refusals(answer) in ({_TOPIC_DENIED}, {_CLUSTER_DENIED}), (api, answer)
    for key in set(range(_KEYS_MAX)) - {API_KEYS[each] for each in SERVED}:
        with log_in(port) as client:
            client.send_frame(struct.pack(">hhih", key, 0, 1, -1))
            with pytest.raises(Closed):
                client.receive_frame()
