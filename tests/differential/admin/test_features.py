"""The features of a cluster, and who decides about its metadata."""

from __future__ import annotations

from typing import Any

from differential.peer import Peer
from differential.scripts import differential

_UPGRADE, _SAFELY, _ANYHOW = 1, 2, 3
_ON = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "transaction.version": 2,
}


def _ask(
    peer: Peer, *updates: tuple[str, int], upgrade_type: int = _UPGRADE, about: str = ""
) -> None:
    """Only validated, where the version can say that; what has no effect is asked in others."""
    peer.note(f"{about}{updates}, {upgrade_type}")
    told: list[dict[str, Any]] = [
        {"feature": feature, "max_version_level": level} for feature, level in updates
    ]
    if peer.version == 0:
        for each in told:
            each["allow_downgrade"] = upgrade_type != _UPGRADE
        peer.ask(timeout=5000, feature_updates=told)
        return
    for each in told:
        each["upgrade_type"] = upgrade_type
    peer.ask(timeout=5000, feature_updates=told, validate_only=True)


@differential("update_features")
def test_no_changes(peer: Peer) -> None:
    _ask(peer)
    for update in _ON.items():
        _ask(peer, update)
        _ask(peer, update, update)
    _ask(peer, *_ON.items())


@differential("update_features")
def test_what_cannot_be(peer: Peer) -> None:
    for feature, level in _ON.items():
        for odd in (-1, level - 1, level + 1, 2**15 - 1):
            _ask(peer, (feature, odd))
    for level in (-1, 0, 1):
        _ask(peer, ("no.such.feature", level))
        _ask(peer, ("", level))
    _ask(peer, ("group.version", 1), ("no.such.feature", 1))
    _ask(peer, ("no.such.feature", 1), ("no.such.feature", 1))


@differential("update_features", versions=[1, 2])
def test_types_of_upgrades(peer: Peer) -> None:
    for upgrade_type in (-1, 0, _SAFELY, _ANYHOW, 4):
        _ask(peer, ("group.version", 1), upgrade_type=upgrade_type)
        _ask(peer, ("group.version", 2), upgrade_type=upgrade_type)
        _ask(peer, ("no.such.feature", 1), upgrade_type=upgrade_type)


@differential("update_features", versions=[1, 2])
def test_lower_levels(peer: Peer) -> None:
    for upgrade_type in (_SAFELY, _ANYHOW):
        for update in (("transaction.version", 1), ("group.version", 0)):
            _ask(peer, update, upgrade_type=upgrade_type, about="a lower level, ")


@differential("update_features", versions=[1, 2])
def test_features_of_kraft(peer: Peer) -> None:
    for update in (("metadata.version", 30), ("streams.version", 1)):
        _ask(peer, update, about="a feature that is not here, ")


@differential("describe_quorum")
def test_the_quorum(peer: Peer) -> None:
    first = {"partition_index": 0}
    topic = {"topic_name": "__cluster_metadata", "partitions": [first]}
    peer.ask(topics=[topic])
    for odd in (
        [],
        [topic | {"partitions": []}],
        [topic | {"partitions": [{"partition_index": 1}]}],
        [topic | {"partitions": [first, first]}],
        [topic, topic],
        [topic | {"topic_name": "topic"}],
        [topic, topic | {"topic_name": "topic"}],
        [topic | {"topic_name": ""}],
    ):
        peer.note(str(odd))
        peer.ask(topics=odd)
