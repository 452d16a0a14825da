"""A schema registry that is asked by its REST API: what is asked, how often, what goes wrong."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from client.values.avro_schemas import written
from drumlin import (
    RegistryError,
    RegistryUnavailable,
    SchemaError,
    SchemaRegistry,
    UnknownSchema,
    ValueDecoder,
)
from drumlin.client.values.framing import header
from drumlin.client.values.registry import latest_schema, register, schema_of_id
from drumlin.client.values.schema_cache import Allowance, SchemaCache
from drumlin.security import Tls
from rig.servers.certificates import Certificates
from rig.servers.schema_registry import RegistryRig, running_registry

LONG = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
_DRIPS = 1000


@pytest.fixture
def rig() -> Iterator[RegistryRig]:
    with running_registry() as rig:
        yield rig


def column(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def test_a_schema_is_asked_for_once(rig: RegistryRig) -> None:
    schema_id = rig.add("longs", LONG)
    decoder = ValueDecoder(format="avro", registry=rig.url, subject="longs")
    value = header(schema_id) + written(LONG, {"a": 5})
    for _ in range(3):
        assert decoder.decode(column(value, None)).values.to_pylist() == [{"a": 5}, None]
    assert rig.requests[f"/schemas/ids/{schema_id}"] == 1


UNKNOWN = (404, b'{"error_code": 40403, "message": "Schema not found"}')


def test_an_unknown_id_is_no_fault_of_the_record(rig: RegistryRig) -> None:
    """The schema may be missing for now: whoever drops bad records must not drop these."""
    registry = SchemaRegistry(rig.url, patience_ms=600)
    decoder = ValueDecoder(json.dumps(LONG), format="avro", registry=registry)
    good = header(rig.add("longs", LONG)) + written(LONG, {"a": 5})
    for _ in range(2):
        with pytest.raises(UnknownSchema, match=r"schema 70, .*Schema not found"):
            decoder.decode(column(header(70), good))
    assert rig.requests["/schemas/ids/70"] >= 2
    assert decoder.decode(column(good)).values.to_pylist() == [{"a": 5}]


def test_an_id_that_is_known_a_moment_later(rig: RegistryRig) -> None:
    """As by a registry's follower that lags behind."""
    decoder = ValueDecoder(json.dumps(LONG), format="avro", registry=rig.url)
    good = header(rig.add("longs", LONG)) + written(LONG, {"a": 5})
    rig.failures = [UNKNOWN]
    assert decoder.decode(column(good)).values.to_pylist() == [{"a": 5}]


class _Clock:
    """Time that passes by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


@pytest.mark.parametrize("patience_ms", [0, 10_000])
def test_known_ids_are_found_among_any_number_of_unknown_ones(
    rig: RegistryRig, patience_ms: int
) -> None:
    known, clock = rig.add("longs", LONG), _Clock()
    registry = SchemaRegistry(rig.url, patience_ms=patience_ms, unknown_ids_are_bad=True)
    cache = SchemaCache(registry, clock, clock.sleep)
    unknown = range(1000, 1150)
    found = cache.schemas([*unknown, known])
    assert found.pop(known) == schema_of_id(registry, known)
    assert [type(found[each]) for each in unknown] == [UnknownSchema] * 150
    asked = sum(rig.requests[f"/schemas/ids/{each}"] for each in unknown)
    assert asked <= 100 + 10 * clock.now_s, "a registry is not flooded"
    assert clock.now_s >= patience_ms / 1000
    # Later it is asked once more, and not waited for.
    waited_s = clock.now_s
    clock.sleep(100)
    later = rig.add("later", '"string"')
    assert isinstance(cache.schemas([1000])[1000], UnknownSchema)
    assert cache.schemas([later, known]).keys() == {later, known}
    assert clock.now_s == waited_s + 100


def test_more_unknown_ids_than_are_remembered_are_settled(
    rig: RegistryRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drumlin.client.values.schema_cache._UNKNOWN_MAX", 4)
    monkeypatch.setattr("drumlin.client.values.schema_cache._IDS_AT_ONCE", 4)
    clock = _Clock()
    registry = SchemaRegistry(rig.url, unknown_ids_are_bad=True)
    found = SchemaCache(registry, clock, clock.sleep).schemas(range(1000, 1010))
    assert len(found) == 10


def test_unknown_ids_may_be_bad_records(rig: RegistryRig) -> None:
    registry = SchemaRegistry(rig.url, patience_ms=0, unknown_ids_are_bad=True)
    decoder = ValueDecoder(json.dumps(LONG), format="avro", registry=registry)
    good = header(rig.add("longs", LONG)) + written(LONG, {"a": 5})
    found = decoder.decode(column(header(70), good))
    assert "no schema 70" in found.reasons[0]
    assert found.values.to_pylist() == [None, {"a": 5}]


def test_what_is_no_registry_has_no_say_about_ids(rig: RegistryRig) -> None:
    registry = SchemaRegistry(rig.url, patience_ms=0, unknown_ids_are_bad=True)
    decoder = ValueDecoder(json.dumps(LONG), format="avro", registry=registry)
    for content in (b"<html>", b"[]", b'{"error_code": []}', b'{"message": "no route"}'):
        rig.failures = [(404, content)]
        with pytest.raises(RegistryUnavailable, match="404"):
            decoder.decode(column(header(70)))


def test_the_allowance_of_misses_returns_with_time() -> None:
    allowance = Allowance(2, 10.0, now_s=0.0)
    for _ in range(2):
        assert allowance.wait_s(0.0) == 0
        allowance.take()
    assert allowance.wait_s(0.05) == pytest.approx(0.05)
    assert allowance.wait_s(0.15) == 0


def test_values_that_have_no_header(rig: RegistryRig) -> None:
    schema_id = rig.add("longs", LONG)
    decoder = ValueDecoder(format="avro", registry=rig.url, subject="longs")
    bad = [b"", b"\0\0\0", b"\1" + header(schema_id)[1:] + b"\2", b'{"a": 5}']
    found = decoder.decode(column(*bad, header(schema_id)))
    assert list(found.reasons) == [0, 1, 2, 3, 4]
    assert all("zero byte" in found.reasons[row] for row in range(4))


def test_json_has_a_header_too_and_needs_no_schema_of_it(rig: RegistryRig) -> None:
    decoder = ValueDecoder(pa.struct([("a", pa.int64())]), registry=rig.url)
    found = decoder.decode(column(header(9) + b'{"a": 1}', b'{"a": 1}'))
    assert found.values.to_pylist() == [{"a": 1}, None]
    assert not rig.requests


def test_json_values_with_an_id_each_are_one_block(rig: RegistryRig) -> None:
    decoder = ValueDecoder(pa.struct([("a", pa.int64())]), registry=rig.url)
    values = [header(number) + b'{"a": %d}' % number for number in range(20_000)]
    found = decoder.decode(column(*values))
    assert found.values.field("a").to_pylist() == list(range(20_000))


def test_a_schema_of_another_kind_or_of_no_use(rig: RegistryRig) -> None:
    ids = [rig.add("a", '"x"', "JSON"), rig.add("a", "{"), rig.add("a", '"string"')]
    decoder = ValueDecoder(json.dumps(LONG), format="avro", registry=rig.url)
    found = decoder.decode(column(*map(header, ids)))
    assert "is JSON, not AVRO" in found.reasons[0]
    assert "not an Avro schema" in found.reasons[1]
    assert "cannot be read as record" in found.reasons[2]


def test_references(rig: RegistryRig) -> None:
    rig.add("point", {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]})
    line = {"type": "record", "name": "L", "fields": [{"name": "from", "type": "P"}]}
    schema_id = rig.add("line", line, references=[{"name": "P", "subject": "point", "version": 1}])
    decoder = ValueDecoder(format="avro", registry=rig.url, subject="line")
    found = decoder.decode(column(header(schema_id) + b"\x06"))
    assert found.values.to_pylist() == [{"from": {"x": 3}}]


def test_references_in_a_circle_end(rig: RegistryRig) -> None:
    rig.add("a", '"int"', references=[{"name": "B", "subject": "b", "version": 1}])
    rig.add("b", '"int"', references=[{"name": "A", "subject": "a", "version": 1}])
    assert latest_schema(SchemaRegistry(rig.url), "a").text == '"int"'
    rig.add("odd", '"long"', references=[{"name": "X"}])
    with pytest.raises(RegistryError, match=r"invalid references|invalid schema reference"):
        latest_schema(SchemaRegistry(rig.url), "odd")


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 1, "schema": "x", "references": 5},
        {"id": 1, "schema": "x", "references": {"name": "X"}},
        {"id": 1, "schema": "x", "references": [{"name": "X", "subject": "y", "version": 1e999}]},
        {"id": -1, "schema": "x"},
        {"id": 2**32, "schema": "x"},
    ],
)
def test_answers_with_odd_references_and_ids(rig: RegistryRig, answer: dict[str, Any]) -> None:
    rig.failures = [(200, json.dumps(answer).encode())]
    with pytest.raises(
        RegistryError, match=r"invalid references|invalid schema reference|has no id"
    ):
        latest_schema(SchemaRegistry(rig.url), "any")


def test_ids_that_no_registry_has_are_not_asked_for(rig: RegistryRig) -> None:
    decoder = ValueDecoder(json.dumps(LONG), format="avro", registry=rig.url)
    found = decoder.decode(column(*(header(2**32 - number) for number in range(1, 300))))
    assert all("no schema has the id" in reason for reason in found.reasons.values())
    assert not rig.requests


@pytest.mark.parametrize(
    ("status", "said"), [(b"200 OK", "timed out"), (b"500 No", "500 No"), (b"404 No", "404 No")]
)
def test_an_answer_that_drips_is_given_up(status: bytes, said: str) -> None:
    """Each byte comes in time, the answer does not."""
    sent: list[int] = []

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 " + status + b"\r\n\r\n")
            for number in range(_DRIPS):
                connection.sendall(b" ")
                sent.append(number)
                time.sleep(0.01)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RegistryError, match=said):
            schema_of_id(SchemaRegistry(url, timeout_ms=300, patience_ms=0), 1)
        thread.join()
    assert len(sent) < _DRIPS, "the answer was read to its end"


def test_of_a_long_refusal_the_beginning_is_told() -> None:
    said = b'{"message": "' + b"no" * 1_000_000 + b'"}'

    def refuse(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 422 No\r\n\r\n" + said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RegistryError, match="422 nono") as raised:
            schema_of_id(SchemaRegistry(url, patience_ms=0), 1)
        thread.join()
    assert len(str(raised.value)) < 5000


def test_an_answer_that_ends_early_is_no_answer() -> None:
    """So that it is asked for again, as what a registry that is away would have answered."""

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RegistryUnavailable, match="2 bytes read"):
            schema_of_id(SchemaRegistry(url, timeout_ms=3000, patience_ms=0), 1)
        thread.join()


def test_a_registry_that_fails_is_asked_again(rig: RegistryRig) -> None:
    schema_id = rig.add("longs", LONG)
    rig.failures = [(500, b"{}"), (429, b""), (503, b"busy")]
    assert schema_of_id(SchemaRegistry(rig.url), schema_id).text == json.dumps(LONG)
    rig.failures = [(500, b'{"message": "no leader"}')] * 100
    with pytest.raises(RegistryUnavailable, match="500 no leader"):
        schema_of_id(SchemaRegistry(rig.url, patience_ms=300), schema_id)


def test_a_registry_that_is_away_is_no_fault_of_the_record() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        registry = SchemaRegistry(url, patience_ms=0)
        decoder = ValueDecoder(json.dumps(LONG), format="avro", registry=registry)
        with pytest.raises(RegistryUnavailable):
            decoder.decode(column(header(1) + b"\2"))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, b"<html>"), "not JSON"),
        ((200, b"[]"), "no JSON object"),
        ((200, b'{"schema": 5}'), "has no schema"),
        ((200, b"[" * 100_000), "not JSON"),
        ((302, b""), "302"),
        ((422, b'{"message": "invalid"}'), "422 invalid"),
    ],
)
def test_odd_answers(rig: RegistryRig, answer: tuple[int, bytes], reason: str) -> None:
    rig.failures = [answer]
    with pytest.raises(RegistryError, match=reason):
        schema_of_id(SchemaRegistry(rig.url), 1)
    assert sum(rig.requests.values()) == 1, "no redirect is followed"


def test_a_login(rig: RegistryRig) -> None:
    rig.login = "reader:secret:word"
    rig.add("longs", LONG)
    registry = SchemaRegistry(rig.url, username="reader", password="secret:word")
    assert latest_schema(registry, "longs").id == 1
    assert "secret" not in repr(registry)
    with pytest.raises(RegistryError, match="401") as caught:
        latest_schema(SchemaRegistry(rig.url, token="hidden"), "longs")
    assert "hidden" not in str(caught.value)


def test_tls(certificates: Certificates) -> None:
    server = certificates.path("server.crt"), certificates.path("server.key")
    with running_registry(*server) as rig:
        rig.add("longs", LONG)
        trusting = SchemaRegistry(rig.url, tls=Tls(ca=certificates.path("ca.crt")))
        assert latest_schema(trusting, "longs").id == 1
        with pytest.raises(RegistryUnavailable, match="certificate"):
            latest_schema(SchemaRegistry(rig.url, patience_ms=0), "longs")


def test_unknown_subjects_and_registering(rig: RegistryRig) -> None:
    registry = SchemaRegistry(rig.url)
    with pytest.raises(UnknownSchema, match="a/b"):
        latest_schema(registry, "a/b")
    schema_id = register(registry, "a/b", "AVRO", json.dumps(LONG))
    assert latest_schema(registry, "a/b").id == schema_id


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "registry:8081"},
        {"url": "http://user:hush@host"},
        {"url": "http://host", "username": "u"},
        {"url": "http://host", "username": "u", "password": "p", "token": "t"},
        {"url": "http://host", "timeout_ms": 0},
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"registry|authentication|token|timeout") as caught:
        SchemaRegistry(**settings)
    assert "hush" not in str(caught.value)


def test_arguments_that_do_not_go_together(rig: RegistryRig) -> None:
    wrong: list[dict[str, Any]] = [
        {"format": "avro"},
        {"format": "avro", "subject": "longs"},
        {"format": "avro", "schema": "{}", "subject": "longs", "registry": rig.url},
        {"format": "json"},
        {"format": "xml", "schema": "{}"},
    ]
    for arguments in wrong:
        with pytest.raises((ValueError, SchemaError)):
            ValueDecoder(**arguments)
