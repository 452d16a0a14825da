"""Configurations of a topic or a broker, and in what they differ from the defaults."""

from __future__ import annotations

from typing import Any, Final

from drumlin.console.answers.asking import Answer, ask_any, ask_broker, check
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import only
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_TOPIC, _BROKER = 2, 4
_DEFAULT: Final = 5
#: Where a value comes from, by the number in the protocol.
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "server.properties",
    _DEFAULT: "default",
}


async def topic_configs(connections: BrokerConnections, topic: str) -> Answer:
    """All keys of a topic."""
    response = await ask_any(connections, "describe_configs", _request(_TOPIC, topic))
    return _answer(response, f"topic {topic!r}")


async def broker_configs(connections: BrokerConnections, broker: int) -> Answer:
    """All keys of a broker, as it tells them itself."""
    request = _request(_BROKER, str(broker))
    response = await ask_broker(connections, broker, "describe_configs", request)
    return _answer(response, f"broker {broker}")


def _request(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(
        resources=(resource,), include_synonyms=True, include_documentation=True
    )


def _answer(response: Any, what: str) -> Answer:
    result = only(response.results, what)
    check("describe_configs", result.error_code, what, result.error_message)
    return {"configs": sorted(map(_row, result.configs), key=lambda row: str(row["key"]))}


def _row(entry: Any) -> Answer:
    defaults = [each.value for each in entry.synonyms if each.source == _DEFAULT]
    return {
        "key": entry.name,
        "value": entry.value,
        "default": defaults[0] if defaults else None,
        "is_default": entry.config_source == _DEFAULT,
        "source": _SOURCES.get(entry.config_source, "other"),
        "is_sensitive": entry.is_sensitive,
        "is_read_only": entry.read_only,
        "documentation": entry.documentation,
    }
