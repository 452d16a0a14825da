"""What another broker coordinates: groups, transactions, share state."""

from __future__ import annotations

import base64
import uuid
from typing import Any

from differential.cluster.cluster_peer import ClusterPeer, on_clusters

GROUP, TRANSACTION, SHARE = 0, 1, 2


@on_clusters("find_coordinator")
def test_any_broker_knows_that_of_a_group(peer: ClusterPeer) -> None:
    group = peer.unique("group")
    peer.elsewhere(GROUP, group)
    peer.ask_all(key_type=GROUP, coordinator_keys=[group], key=group)


@on_clusters("find_coordinator", versions=range(1, 7))
def test_any_broker_knows_that_of_a_transaction(peer: ClusterPeer) -> None:
    name = peer.unique("transaction")
    peer.elsewhere(TRANSACTION, name)
    peer.ask_all(key_type=TRANSACTION, coordinator_keys=[name], key=name)


@on_clusters("find_coordinator", versions=[6])
def test_any_broker_knows_that_of_share_states(peer: ClusterPeer) -> None:
    key = f"{peer.unique('group')}:{_short(uuid.UUID(int=77))}:0"
    peer.elsewhere(SHARE, key)
    peer.ask_all(key_type=SHARE, coordinator_keys=[key, "no share", key + "1"])


def _ask_elsewhere(peer: ClusterPeer, **fields: Any) -> None:
    group = peer.unique("group")
    known = {"group_id": group} | fields
    peer.elsewhere(GROUP, group).ask(**known)


@on_clusters("join_group")
def test_joining(peer: ClusterPeer) -> None:
    protocols = [{"name": "range", "metadata": b""}]
    kind = {"protocol_type": "consumer", "protocols": protocols}
    times = {"session_timeout": 10_000, "rebalance_timeout": 10_000}
    _ask_elsewhere(peer, member_id="", **kind, **times)


@on_clusters("sync_group")
def test_syncing(peer: ClusterPeer) -> None:
    kind = {"protocol_type": "consumer", "protocol_name": "range"}
    _ask_elsewhere(peer, generation_id=1, member_id="m", assignments=[], **kind)


@on_clusters("heartbeat")
def test_heartbeats(peer: ClusterPeer) -> None:
    _ask_elsewhere(peer, generation_id=1, member_id="m")


@on_clusters("leave_group")
def test_leaving(peer: ClusterPeer) -> None:
    _ask_elsewhere(peer, member_id="m", members=[{"member_id": "m"}])


@on_clusters("offset_commit")
def test_commits(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1,))
    partition = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1}
    names = {"name": topic, "topic_id": peer.topic_ids[topic]}
    topics = [names | {"partitions": [partition]}]
    member = {"generation_id_or_member_epoch": -1, "member_id": ""}
    _ask_elsewhere(peer, topics=topics, retention_time=-1, **member)


@on_clusters("offset_fetch")
def test_committed_offsets(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1,))
    names = {"name": topic, "topic_id": peer.topic_ids[topic]}
    topics = [names | {"partition_indexes": [0]}]
    group = peer.unique("group")
    groups = [{"group_id": group, "topics": topics, "member_epoch": -1}]
    _ask_elsewhere(peer, topics=topics, groups=groups)
    if peer.version >= 2:
        groups = [{"group_id": group, "topics": None, "member_epoch": -1}]
        _ask_elsewhere(peer, topics=None, groups=groups)


@on_clusters("describe_groups")
def test_descriptions(peer: ClusterPeer) -> None:
    group = peer.unique("group")
    peer.elsewhere(GROUP, group).ask(groups=[group])


@on_clusters("delete_groups")
def test_deletions(peer: ClusterPeer) -> None:
    group = peer.unique("group")
    peer.elsewhere(GROUP, group).ask(groups_names=[group])


@on_clusters("offset_delete")
def test_deletions_of_offsets(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1,))
    _ask_elsewhere(peer, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}])


@on_clusters("consumer_group_heartbeat")
def test_members_of_consumer_groups(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1,))
    wanted = {"subscribed_topic_names": [topic], "topic_partitions": []}
    _ask_elsewhere(peer, member_id="m", member_epoch=0, rebalance_timeout=10_000, **wanted)


@on_clusters("consumer_group_describe")
def test_descriptions_of_consumer_groups(peer: ClusterPeer) -> None:
    group = peer.unique("group")
    peer.elsewhere(GROUP, group).ask(group_ids=[group])


@on_clusters("share_group_heartbeat", versions=[1])
def test_members_of_share_groups(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1,))
    _ask_elsewhere(peer, member_id="m", member_epoch=0, subscribed_topic_names=[topic])


@on_clusters("share_group_describe", versions=[1])
def test_descriptions_of_share_groups(peer: ClusterPeer) -> None:
    group = peer.unique("group")
    peer.elsewhere(GROUP, group).ask(group_ids=[group])


@on_clusters("describe_share_group_offsets")
def test_offsets_of_share_groups(peer: ClusterPeer) -> None:
    topic, group = peer.topic("t", (1,)), peer.unique("group")
    topics = [{"topic_name": topic, "partitions": [0]}]
    peer.elsewhere(GROUP, group).ask(groups=[{"group_id": group, "topics": topics}])


@on_clusters("alter_share_group_offsets")
def test_altered_offsets_of_share_groups(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1,))
    partition = {"partition_index": 0, "start_offset": 0}
    _ask_elsewhere(peer, topics=[{"topic_name": topic, "partitions": [partition]}])


@on_clusters("delete_share_group_offsets")
def test_deleted_offsets_of_share_groups(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1,))
    _ask_elsewhere(peer, topics=[{"topic_name": topic}])


@on_clusters("read_share_group_state", versions=[0])
def test_share_states(peer: ClusterPeer) -> None:
    topic, group = peer.topic("t", (1,)), peer.unique("group")
    topic_id = peer.topic_ids[topic]
    node = peer.elsewhere(SHARE, f"{group}:{_short(topic_id)}:0")
    at = {"partition": 0, "leader_epoch": 0, "state_epoch": 0, "start_offset": 0}
    for api in ("initialize", "read", "write", "delete"):
        fields = at | {"state_batches": []} if api == "write" else at
        known = {key: fields[key] for key in _STATE_FIELDS[api]}
        topics = [{"topic_id": topic_id, "partitions": [known]}]
        node.ask(f"{api}_share_group_state", 0, group_id=group, topics=topics)
    known = {key: at[key] for key in ("partition", "leader_epoch")}
    topics = [{"topic_id": topic_id, "partitions": [known]}]
    node.ask("read_share_group_state_summary", 0, group_id=group, topics=topics)


_STATE_FIELDS = {
    "initialize": ("partition", "state_epoch", "start_offset"),
    "read": ("partition", "leader_epoch"),
    "write": ("partition", "state_epoch", "leader_epoch", "start_offset", "state_batches"),
    "delete": ("partition",),
}


@on_clusters("share_fetch", versions=range(1, 3))
def test_shares_of_a_partition_that_is_led_elsewhere(peer: ClusterPeer) -> None:
    """The leader, and where it is, are in the answer."""
    topic = peer.topic("t", (1, 2))
    partition = {"partition_index": 0, "acknowledgement_batches": []}
    topics = [{"topic_id": peer.topic_ids[topic], "partitions": [partition]}]
    member = {"group_id": peer.unique("group"), "member_id": str(peer.topic_ids[topic])}
    limits = {"max_bytes": 1000, "max_records": 10, "batch_size": 10, "share_session_epoch": 0}
    for node_id in (2, 3):
        peer.nodes[node_id].ask(topics=topics, max_wait=0, **member, **limits)


@on_clusters("init_producer_id", versions=range(6))
def test_producer_ids(peer: ClusterPeer) -> None:
    name = peer.unique("transaction")
    producer = {"producer_id": -1, "producer_epoch": -1}
    times = {"transaction_timeout": 10_000}
    peer.elsewhere(TRANSACTION, name).ask(transactional_id=name, **producer, **times)


@on_clusters("add_partitions_to_txn")
def test_partitions_of_transactions(peer: ClusterPeer) -> None:
    topic, name = peer.topic("t", (1,)), peer.unique("transaction")
    topics = [{"name": topic, "partitions": [0]}]
    producer = {"producer_id": 1, "producer_epoch": 0}
    entry = {"transactional_id": name, "verify_only": False, "topics": topics} | producer
    old = {"v3_and_below_" + key: value for key, value in producer.items()}
    old |= {"v3_and_below_transactional_id": name, "v3_and_below_topics": topics}
    peer.elsewhere(TRANSACTION, name).ask(transactions=[entry], **old)


@on_clusters("add_offsets_to_txn")
def test_offsets_of_transactions(peer: ClusterPeer) -> None:
    name, group = peer.unique("transaction"), peer.unique("group")
    producer = {"producer_id": 1, "producer_epoch": 0}
    peer.elsewhere(TRANSACTION, name).ask(transactional_id=name, group_id=group, **producer)


@on_clusters("end_txn")
def test_ends_of_transactions(peer: ClusterPeer) -> None:
    name = peer.unique("transaction")
    producer = {"producer_id": 1, "producer_epoch": 0, "committed": True}
    peer.elsewhere(TRANSACTION, name).ask(transactional_id=name, **producer)


@on_clusters("txn_offset_commit")
def test_commits_in_transactions(peer: ClusterPeer) -> None:
    topic, group = peer.topic("t", (1,)), peer.unique("group")
    partition = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1}
    topics = [{"name": topic, "partitions": [partition]}]
    producer = {"producer_id": 1, "producer_epoch": 0, "generation_id": -1, "member_id": ""}
    name = peer.unique("transaction")
    node = peer.elsewhere(GROUP, group)
    node.ask(transactional_id=name, group_id=group, topics=topics, **producer)


@on_clusters("describe_transactions")
def test_descriptions_of_transactions(peer: ClusterPeer) -> None:
    name = peer.unique("transaction")
    peer.elsewhere(TRANSACTION, name).ask(transactional_ids=[name])


@on_clusters("write_txn_markers", versions=[1])
def test_markers(peer: ClusterPeer) -> None:
    topic = peer.topic("t", (1, 2))
    topics = [{"name": topic, "partition_indexes": [0, 7]}]
    marker = {"producer_id": 1, "producer_epoch": 0, "transaction_result": True}
    marker |= {"coordinator_epoch": 0, "topics": topics}
    peer.nodes[2].ask(markers=[marker])
    peer.note("markers for a broker without a replica")
    peer.nodes[3].ask(markers=[marker])


def _short(topic_id: Any) -> str:
    """A topic id as it is in a key."""
    encoded = base64.urlsafe_b64encode(topic_id.bytes).decode()
    return encoded.rstrip("=")
