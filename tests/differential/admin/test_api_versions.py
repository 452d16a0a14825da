"""ApiVersions, and what is advertised: every version that is, parses and answers."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from differential.compare import Step
from differential.peer import Peer
from differential.scripts import Broker, Brokers, all_versions, differential
from drumlin.broker.apis.served import SERVED
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.messages import API_KEYS
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.documents.doc_tables import doc_tables

#: What docs/compatibility.md says of the rest: that it is not served.
_NOT_SERVED = [name for names in doc_tables.NOT_SERVED.values() for name in names]
#: Kafka advertises those of telemetry only where it has a plugin that takes it, Drumlin where it
#: serves metrics.
_ADVERTISED = SERVED.keys() - {"get_telemetry_subscriptions", "push_telemetry"}
#: Where a request of zeros alone is none that a broker answers.
_ANSWERED = {
    "produce": {"acks": 1},
    "describe_acls": {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    },
}
_NAMES = {key: name for name, key in API_KEYS.items()}
_SOFTWARE = {"client_software_name": "raw", "client_software_version": "1.0"}


def _name(api_key: int) -> str:
    return _NAMES.get(api_key, f"API {api_key}")


def _advertised(port: int) -> dict[str, tuple[int, int]]:
    with RawClient(port) as client:
        answer = client.ask("api_versions", 3, **_SOFTWARE)
    return {_name(each.api_key): (each.min_version, each.max_version) for each in answer.api_keys}


@pytest.mark.kafka
def test_the_same_versions_are_advertised(brokers: Brokers) -> None:
    def run(name: str, broker: Broker) -> tuple[list[Step], list[Any]]:
        advertised = _advertised(broker.port)
        apis = {*advertised, *(_NOT_SERVED if name == "Drumlin" else ())}
        return [], [{api: [*advertised[api]] for api in _ADVERTISED}, sorted(apis)]

    brokers.compare(__name__, "advertised", run, "the versions that are advertised")
    assert _advertised(brokers.drumlin.port).keys() == _ADVERTISED


@pytest.mark.kafka
def test_every_advertised_version_answers(brokers: Brokers) -> None:
    """An empty request of each version: whatever comes back, it must be an answer."""
    silent = []
    for api, (low, high) in _advertised(brokers.drumlin.port).items():
        # Produce below 3 is advertised for old librdkafka, and closes the connection in Kafka too.
        for version in range(max(low, all_versions(api)[0]), high + 1):
            fields: dict[str, Any] = _ANSWERED.get(api, {})
            with RawClient(brokers.drumlin.port, timeout_s=10) as client:
                try:
                    client.ask(api, version, **fields)
                except (Closed, NoAnswer, MalformedMessage) as error:
                    silent.append((api, version, repr(error)))
    assert not silent


@differential("api_versions")
def test_api_versions(peer: Peer) -> None:
    peer.ask(**_SOFTWARE)


@differential("api_versions", versions=[3, 4])
def test_invalid_software_name(peer: Peer) -> None:
    for name in ("", "-raw", "raw-", "a b", "ü", "a.b-c"):
        peer.ask(client_software_name=name, client_software_version="1.0")
        peer.ask(client_software_name="raw", client_software_version=name)


def _frame(key: int, version: int, body: bytes = b"", client_id: bytes | None = b"raw") -> bytes:
    length = -1 if client_id is None else len(client_id)
    frame = struct.pack(">hhih", key, version, 7, length) + (client_id or b"") + body
    return len(frame).to_bytes(4, "big") + frame


#: What must close the connection, or not; an answer would be read as one of Metadata 1.
_MALFORMED = {
    "no bytes at all": b"\x00\x00\x00\x00",
    "half a header": b"\x00\x00\x00\x04\x00\x12\x00\x00",
    "no length of a client id": b"\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x07",
    "a client id longer than the frame": b"\x00\x00\x00\x0a" + _frame(18, 0)[4:12] + b"\x7f\xff",
    "a client id of -2 bytes": b"\x00\x00\x00\x0a" + _frame(3, 1)[4:12] + b"\xff\xfe",
    "a negative size": b"\xff\xff\xff\xff",
    "a size above the limit": b"\x7f\xff\xff\xff",
    "an unknown API": _frame(999, 0),
    "a negative API": _frame(-1, 0),
    "an unknown version of Metadata": _frame(3, 99),
    "a negative version of Metadata": _frame(3, -1),
    "a version of Fetch that is gone": _frame(1, 3),
    "Produce 0, which is only advertised": _frame(0, 0),
    "Metadata without a body": _frame(3, 1),
    "an array of 2^31-1 topics": _frame(3, 1, b"\x7f\xff\xff\xff"),
    "an array of -2 groups": _frame(15, 0, b"\xff\xff\xff\xfe"),
    "a topic of -2 bytes": _frame(3, 1, b"\x00\x00\x00\x01\xff\xfe"),
    "a null topic": _frame(3, 1, b"\x00\x00\x00\x01\xff\xff"),
    "a topic longer than the frame": _frame(3, 1, b"\x00\x00\x00\x01\x7f\xff"),
    "a topic that is not UTF-8": _frame(3, 1, b"\x00\x00\x00\x01\x00\x02\xff\xfe"),
    "a client id that is not UTF-8": _frame(3, 1, b"\x00\x00\x00\x00", b"\xff\xfe"),
    "a rest behind the body": _frame(3, 1, b"\x00\x00\x00\x00rest"),
    "an endless varint": _frame(3, 12, b"\xff" * 12),
    "an API between brokers": _frame(56, 2),
}


@differential("metadata", versions=[1])
def test_malformed_frames(peer: Peer) -> None:
    """Whether the connection is closed, or what comes back."""
    for what, data in _MALFORMED.items():
        peer.note(what)
        peer.ask_bytes(data)


@differential("api_versions", versions=[4])
def test_a_negative_version_is_answered_in_version_0(peer: Peer) -> None:
    peer.ask_bytes(_frame(18, -1), as_version=0)


@differential("api_versions", versions=[4])
def test_a_version_too_high_is_answered_in_version_0(peer: Peer) -> None:
    """KIP-511: the answer says UNSUPPORTED_VERSION, and which versions there are."""
    peer.ask_bytes(_frame(18, 99, b"\x00"), as_version=0)


@differential("api_versions", versions=[4])
def test_rest_behind_a_request(peer: Peer) -> None:
    peer.ask_bytes(_frame(18, 0, b"rest"), as_version=0)


@differential("api_versions", versions=[0])
def test_no_client_id(peer: Peer) -> None:
    peer.ask_bytes(_frame(18, 0, b"", None), as_version=0)
