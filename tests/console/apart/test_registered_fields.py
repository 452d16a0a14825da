"""Fields with schema ids, by whatever schemas a registry has: text, or why not, and soon."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from fastavro import parse_schema, schemaless_writer

from drumlin.client.values.framing import header
from drumlin.client.values.registry import SchemaRegistry
from drumlin.client.values.schema_cache import cache_of
from drumlin.console.apart import registered_fields
from drumlin.console.apart.registered_fields import RegisteredFields
from rig.servers.schema_registry import RegistryRig, running_registry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[RegistryRig]:
    with running_registry() as registry:
        yield registry


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _order(registry: RegistryRig, number: int) -> bytes:
    encoded = io.BytesIO()
    schemaless_writer(encoded, parse_schema(ORDER), {"id": number})
    return header(registry.add("orders", ORDER)) + encoded.getvalue()


def test_each_field_is_shown_or_says_why_not(registry: RegistryRig) -> None:
    fields = RegisteredFields(SchemaRegistry(registry.url))
    as_json = header(registry.add("j", {"type": "object"}, "JSON"))
    nested = header(registry.add("nested", {"type": "array", "items": "null"}))
    found = fields.shown(
        [
            _order(registry, 7),
            b"plain",
            as_json + b'{"n": 1.50}',
            as_json + b"{",
            header(99) + b"x",
            _order(registry, 1)[:5],
            header(2**32 - 1),
            b"\0" * (2 << 20),
            nested + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # of 2 ** 63 nulls
            header(registry.add("bad", "{")) + b"x",
            header(registry.add("deep", "[" * 100_000)) + b"x",
            header(registry.add("kind", "x", "XML")) + b"x",
        ],
        100,
    )
    assert json.loads(found[0]["text"]) == {"id": 7}
    assert found[2]["text"] == '{"n": 1.50}'
    assert all(each["error"] for at, each in enumerate(found) if at not in (0, 2)), found
    assert "no schema id" in found[1]["error"]
    assert "99" in found[4]["error"]
    assert "too large" in found[7]["error"]
    assert "XML" in found[11]["error"]


def test_texts_are_cut(registry: RegistryRig) -> None:
    fields = RegisteredFields(SchemaRegistry(registry.url))
    (found,) = fields.shown([_order(registry, 7)], 3)
    assert (len(found["text"]), found["is_cut"]) == (3, True)


def test_few_bytes_that_are_long_texts_are_no_long_answer(registry: RegistryRig) -> None:
    item = {"type": "record", "name": "I", "fields": [{"name": "n" * 500, "type": "boolean"}]}
    schema_id = registry.add("long", {"type": "array", "items": item})
    field = header(schema_id) + b"\xa0\x1f" + b"\1" * 2_000 + b"\0"  # each is a text of 1 MB
    found = RegisteredFields(SchemaRegistry(registry.url)).shown([field] * 20, 1 << 20)
    texts = [each["text"] for each in found if "text" in each]
    assert 0 < sum(map(len, texts)) <= 1 << 20
    assert found[-1] == {"error": "too much to be shown at once"}


def test_a_registry_is_asked_once_for_what_it_does_not_have(registry: RegistryRig) -> None:
    clock = _Clock()
    fields = RegisteredFields(SchemaRegistry(registry.url), clock)
    many = [header(each) + b"x" for each in range(100, 160)]

    def asked() -> int:
        """How often it is asked while all of them are to be shown."""
        before = sum(registry.requests.values())
        assert all(each["error"] for each in fields.shown(many, 100))
        return sum(registry.requests.values()) - before

    assert [asked() for _ in range(5)] == [20, 20, 20, 0, 0]
    clock.now += 29.0
    assert asked() == 0
    clock.now += 2.0
    cache_of.cache_clear()  # it has a rule of its own, by the time of this machine
    assert asked() == 20


def test_a_registry_that_is_gone_is_not_waited_for_again_and_again(registry: RegistryRig) -> None:
    clock = _Clock()
    fields = RegisteredFields(SchemaRegistry(registry.url), clock)
    order = _order(registry, 7)
    registry.failures += [(500, b"{}")] * 2
    assert "500" in fields.shown([order], 100)[0]["error"]
    asked = sum(registry.requests.values())
    assert "500" in fields.shown([order], 100)[0]["error"]
    assert sum(registry.requests.values()) == asked
    clock.now += 10.0
    registry.failures.clear()
    assert fields.shown([order], 100)[0]["text"] == '{"id": 7}'


def test_what_is_kept_is_bounded(registry: RegistryRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_fields, "_IDS_MAX", 5)
    fields = RegisteredFields(SchemaRegistry(registry.url))
    ids = [registry.add(f"s{each}", {"type": "string", "n": each}) for each in range(12)]
    found = fields.shown([header(each) + b"\2x" for each in ids], 100)
    assert [each["text"] for each in found] == ['"x"'] * 12
    fields.shown([header(each) for each in range(100, 112)], 100)
    assert (len(fields._schemas), len(fields._failed)) == (5, 5)
