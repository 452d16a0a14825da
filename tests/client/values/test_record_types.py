"""Several record types in a topic, by the names of their records."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from drumlin import AvroEncoder, SchemaError, ValueDecoder
from rig.servers.schema_registry import RegistryRig, running_registry


def record(name: str, **types: object) -> dict[str, object]:
    fields = [{"name": each, "type": kind} for each, kind in types.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": fields}


@pytest.fixture
def registry() -> Iterator[RegistryRig]:
    with running_registry() as rig:
        rig.add("t-shop.Order", record("Order", id="long", price="double"))
        rig.add("t-shop.Refund", record("Refund", order="long"))
        rig.add("t-shop.Other", record("Other", x="string"))
        yield rig


def written(registry: RegistryRig, subject: str, *rows: dict[str, object]) -> list[bytes]:
    values = pa.array(list(rows))
    encoder = AvroEncoder(values.type, registry=registry.url, subject=subject, schema_id="latest")
    encoded: list[bytes] = encoder.encode(values).to_pylist()
    return encoded


def test_each_value_is_in_the_field_of_its_record(registry: RegistryRig) -> None:
    orders = written(registry, "t-shop.Order", {"id": 1, "price": 2.5}, {"id": 2, "price": 0.5})
    (refund,) = written(registry, "t-shop.Refund", {"order": 1})
    # A record that has grown since the reader's schema was looked up, and one of another name.
    subjects = ["t-shop.Order", "t-shop.Refund"]
    decoder = ValueDecoder(format="avro", registry=registry.url, subject=subjects)
    registry.add("t-shop.Refund", record("Refund", order="long", reason="string"))
    (grown,) = written(registry, "t-shop.Refund", {"order": 2, "reason": "late"})
    (other,) = written(registry, "t-shop.Other", {"x": "y"})
    cut = orders[0][:-1]
    column = pa.array([orders[0], None, refund, other, cut, orders[1], grown], pa.binary())
    found = pickle.loads(pickle.dumps(decoder)).decode(column)
    found.values.validate(full=True)
    assert found.values.to_pylist() == [
        {"Order": {"id": 1, "price": 2.5}, "Refund": None},
        None,
        {"Order": None, "Refund": {"order": 1}},
        None,
        None,
        {"Order": {"id": 2, "price": 0.5}, "Refund": None},
        {"Order": None, "Refund": {"order": 2}},
    ]
    assert found.reasons.keys() == {3, 4}
    assert found.reasons[3] == "a record shop.Other, not one of shop.Order, shop.Refund"


def test_records_of_the_same_short_name(registry: RegistryRig) -> None:
    registry.add("archive.Order", record("Order", id="long") | {"namespace": "archive"})
    subjects = ["t-shop.Order", "archive.Order", "t-shop.Refund"]
    decoder = ValueDecoder(format="avro", registry=registry.url, subject=subjects)
    assert [each.name for each in decoder.type] == ["shop_Order", "archive_Order", "Refund"]


def test_what_is_refused(registry: RegistryRig) -> None:
    registry.add("u", ["null", "string"])
    for subjects, reason in (
        (["t-shop.Order", "u"], "schema 4 is a union, not a record"),
        (["t-shop.Order", "t-shop.Order"], "several subjects have the record shop.Order"),
    ):
        with pytest.raises(SchemaError, match=reason):
            ValueDecoder(format="avro", registry=registry.url, subject=subjects)
    with pytest.raises(ValueError, match="several subjects are for avro"):
        ValueDecoder(format="protobuf", registry=registry.url, subject=["a", "b"])
