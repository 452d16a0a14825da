"""ACLs in znodes: as Apache Kafka 3.9 writes them, and what others may have made of them."""

from __future__ import annotations

import pytest

from drumlin.broker.rights.acls import (
    Kind,
    Operation,
    Pattern,
    Permission,
    Rule,
    Target,
    key_of,
    resource_of,
)
from drumlin.metadata.zookeeper.znodes import acl_nodes, config_nodes
from drumlin.metadata.zookeeper.znodes.operations import Create, Delete
from drumlin.zookeeper.nodes import UnreadableNode

#: Of a real one.
_NODE = (
    b'{"acls":[{"principal":"User:*","permissionType":"Allow","host":"*",'
    b'"operation":"DescribeConfigs"}],"version":1}'
)
_RULE = Rule("User:*", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)


def test_what_kafka_writes_is_written_and_read() -> None:
    key = key_of(_RULE)
    assert acl_nodes.encode_acls([key]) == _NODE
    assert acl_nodes.decode_acls("/n", _NODE) == {key: ""}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("operation", Operation)
def test_every_kind_and_operation_has_a_word(kind: Kind, operation: Operation) -> None:
    key = key_of(_RULE._replace(operation=operation, permission=Permission.DENY))
    assert acl_nodes.decode_acls("/n", acl_nodes.encode_acls([key])) == {key: ""}
    for pattern in Pattern:
        resource = resource_of(Target(kind, pattern, "a:b"))
        parent, _, name = acl_nodes.acl_path(resource).rpartition("/")
        assert acl_nodes.acl_resource(parent, name) == resource
        beginning, data = acl_nodes.encode_acl_change(resource)
        assert acl_nodes.decode_acl_change(f"{beginning}0", data) == [resource]


@pytest.mark.parametrize(
    ("pattern", "path", "change"),
    [
        (Pattern.LITERAL, "/kafka-acl/TransactionalId/a:b", b"TRANSACTIONAL_ID:a:b"),
        (
            Pattern.PREFIXED,
            "/kafka-acl-extended/prefixed/TransactionalId/a:b",
            b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"a:b","patternType":"PREFIXED"}',
        ),
    ],
)
def test_where_acls_are_and_where_changes_are_told(
    pattern: Pattern, path: str, change: bytes
) -> None:
    resource = resource_of(Target(Kind.TRANSACTIONAL_ID, pattern, "a:b"))
    assert acl_nodes.acl_path(resource) == path
    folder = "/kafka-acl-changes" if pattern is Pattern.LITERAL else "/kafka-acl-extended-changes"
    assert acl_nodes.encode_acl_change(resource) == (f"{folder}/acl_changes_", change)
    made, told = config_nodes.change_node(resource, {key_of(_RULE): ""}, None)
    assert made == Create(path, _NODE)
    assert told == Create(f"{folder}/acl_changes_", change, is_sequence=True)
    removed, _ = config_nodes.change_node(resource, {}, 7)
    assert removed == Delete(path, 7)


@pytest.mark.parametrize(
    ("word", "is_known"),
    [(b"READ", True), (b"read", True), (b"describe_configs", True), (b"Frobnicate", False)],
)
def test_words_of_other_tools(word: bytes, is_known: bool) -> None:
    data = _NODE.replace(b"DescribeConfigs", word)
    if is_known:
        assert len(acl_nodes.decode_acls("/n", data)) == 1
    else:
        with pytest.raises(UnreadableNode, match="/n cannot be used"):
            acl_nodes.decode_acls("/n", data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"null",
        b'{"version":1}',
        b'{"version":1,"acls":{}}',
        b'{"version":1,"acls":[1]}',
        _NODE.replace(b'"User:*"', b'"alice"'),
        _NODE.replace(b'"User:*"', b"null"),
        _NODE.replace(b'"host":"*",', b""),
        _NODE.replace(b'"Allow"', b'"Perhaps"'),
        _NODE.replace(b'"version":1', b'"version":2'),
    ],
)
def test_garbage_is_told_of_with_its_node(data: bytes) -> None:
    with pytest.raises(UnreadableNode, match="/n cannot be used"):
        acl_nodes.decode_acls("/n", data)
    for folder in acl_nodes.ACL_CHANGES:
        with pytest.raises(UnreadableNode, match="acl_changes_1 cannot be used"):
            acl_nodes.decode_acl_change(f"{folder}/acl_changes_1", data)


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\nb", "\ud800"])
def test_names_that_no_node_can_have(name: str) -> None:
    assert not acl_nodes.is_storable(resource_of(Target(Kind.GROUP, Pattern.LITERAL, name)))
    assert acl_nodes.is_storable(resource_of(Target(Kind.GROUP, Pattern.LITERAL, "a:b ü")))
