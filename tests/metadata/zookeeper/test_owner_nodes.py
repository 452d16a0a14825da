"""Users and owners of quotas in znodes, as Apache Kafka 3.9 has them."""

from __future__ import annotations

import pytest

from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.zookeeper.znodes import config_nodes, layout
from drumlin.metadata.zookeeper.znodes.operations import Create

_ALICE = Resource(ResourceType.USER, "alice")
_HER_QUOTAS = Resource(ResourceType.QUOTA, "users/alice")


@pytest.mark.parametrize(
    ("name", "node"),
    [("ü ~*/+", "%C3%BC%20%7E%2A%2F%2B"), ("..", "%2E%2E"), ("a.b", "a.b"), ("<default>", None)],
)
def test_users_are_named_as_kafka_names_them(name: str, node: str | None) -> None:
    node = node or "%3Cdefault%3E"  # a user who is called so is not all others
    user = Resource(ResourceType.USER, name)
    assert layout.config_path(user) == f"/config/users/{node}"
    change = layout.encode_config_change(user)
    quotas = Resource(ResourceType.QUOTA, f"users/{node}")
    assert layout.decode_config_change("/c", change) == [quotas, user]


@pytest.mark.parametrize(
    "entity", ["users/<default>", "users/a/clients/b", "clients/<default>", "ips/10.0.0.1"]
)
def test_quotas_have_the_path_of_their_entity(entity: str) -> None:
    quotas = Resource(ResourceType.QUOTA, entity)
    assert layout.config_path(quotas) == f"/config/{entity}"
    change = layout.encode_config_change(quotas)
    assert change == b'{"version":2,"entity_path":"%b"}' % entity.encode()
    assert layout.decode_config_change("/c", change) == [quotas]


@pytest.mark.parametrize("entity", ["users/a/things/b", "users/a/clients/b/c/d", "clients/a/b"])
def test_paths_of_no_entity(entity: str) -> None:
    change = b'{"version":2,"entity_path":"%b"}' % entity.encode()
    assert layout.decode_config_change("/c", change) == []


def test_a_users_node_has_credentials_and_quotas() -> None:
    stored = {"SCRAM-SHA-256": "salt=", "producer_byte_rate": "1024"}
    assert config_nodes.shown(_ALICE, stored) == {"SCRAM-SHA-256": "salt="}
    assert config_nodes.shown(_HER_QUOTAS, stored) == {"producer_byte_rate": "1024"}
    for resource in (_ALICE, _HER_QUOTAS):
        assert config_nodes.decode_node(resource, b"") == {}  # a parent, as Kafka makes it


def test_quotas_are_written_as_kafka_reads_them() -> None:
    """It takes byte rates for whole numbers only, and shares for fractions."""
    configs = {"producer_byte_rate": "1e+16", "request_percentage": "50.0"}
    (made,) = config_nodes.put_node(_HER_QUOTAS, configs, None)
    assert made == Create(
        "/config/users/alice",
        b'{"version":1,"config":{"producer_byte_rate":"10000000000000000",'
        b'"request_percentage":"50.0"}}',
    )
