"""Delegation tokens in znodes: as Apache Kafka 3.9 writes them, and what others may have made of
them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from drumlin.broker.login.delegation_tokens import DelegationToken
from drumlin.metadata.zookeeper.znodes import config_nodes, layout, token_nodes
from drumlin.metadata.zookeeper.znodes.operations import Create, Delete, Replace
from drumlin.zookeeper.nodes import UnreadableNode

#: Of a real one.
_NODE = (
    b'{"issueTimestamp":1795998056059,"renewers":["User%3Abob","User%3Ac%20d%2A"],'
    b'"tokenRequester":"User%3Aalice","tokenId":"HWvDirgJTjK0OpeViXCutQ","owner":"User%3Aalice",'
    b'"expiryTimestamp":1796084456059,"maxTimestamp":1796602856059,"version":3}'
)
_ID = "HWvDirgJTjK0OpeViXCutQ"
_PATH = f"/delegation_token/tokens/{_ID}"
_TOKEN = DelegationToken(
    _ID,
    "User:alice",
    "User:alice",
    ("User:bob", "User:c d*"),
    1795998056059,
    1796602856059,
    1796084456059,
)


def test_what_kafka_writes_is_written_and_read() -> None:
    assert DelegationToken.of_configs(token_nodes.decode_token(_PATH, _NODE)) == _TOKEN
    assert token_nodes.encode_token(_TOKEN.configs()) == _NODE


def test_a_change_is_told_and_what_is_over_is_removed() -> None:
    made, told = config_nodes.change_node(_TOKEN.resource, _TOKEN.configs(), None)
    assert made == Create(_PATH, _NODE)
    beginning = "/delegation_token/token_changes/token_change_"
    assert told == Create(beginning, _ID.encode(), is_sequence=True)
    renewed, _ = config_nodes.change_node(_TOKEN.resource, _TOKEN.configs(), 3)
    assert renewed == Replace(_PATH, _NODE, 3)
    removed, told_again = config_nodes.change_node(_TOKEN.resource, {}, 7)
    assert (removed, told_again) == (Delete(_PATH, 7), told)
    assert token_nodes.decode_token_change(f"{beginning}0", told.data) == [_TOKEN.resource]
    assert layout.is_secret(_PATH)


@pytest.mark.parametrize("version", [1, 2])
def test_older_tokens_were_asked_for_by_their_owner(version: int) -> None:
    fields = json.loads(_NODE) | {"version": version}
    del fields["tokenRequester"]
    found = token_nodes.decode_token(_PATH, json.dumps(fields).encode())
    assert DelegationToken.of_configs(found) == _TOKEN


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 4},
        {"tokenId": "another"},
        {"tokenId": None},
        {"owner": "alice"},
        {"owner": 7},
        {"renewers": "User%3Abob"},
        {"renewers": [None]},
        {"maxTimestamp": "1"},
        {"maxTimestamp": True},
        {"expiryTimestamp": -1},
        {"issueTimestamp": 1 << 63},
    ],
)
def test_a_node_that_is_no_token_is_told(changes: dict[str, Any]) -> None:
    data = json.dumps(json.loads(_NODE) | changes).encode()
    with pytest.raises(UnreadableNode, match=_PATH):
        token_nodes.decode_token(_PATH, data)


@pytest.mark.parametrize("data", [b"", b"a/b", b"..", b"\xff"])
def test_an_announcement_of_nothing_is_told(data: bytes) -> None:
    with pytest.raises(UnreadableNode):
        token_nodes.decode_token_change("/delegation_token/token_changes/token_change_1", data)
