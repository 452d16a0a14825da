"""Every declared message, every version, against kio, whose description of Kafka is not ours."""

from __future__ import annotations

import random

import pytest
from kio.schema import errors
from kio.schema.index import api_key_map, schema_name_map

from drumlin.broker.apis.served import SERVED
from drumlin.wire.apis import APIS, has_flexible_response_header, is_flexible
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import DECLARED
from rig.data.arbitrary_messages import assert_same, cases


@pytest.mark.parametrize("api", DECLARED)
def test_what_kio_writes_is_read_and_written_again(api: str) -> None:
    rng = random.Random(api)
    for case in cases(api):
        for _ in range(8):
            theirs, data = case.arbitrary(rng)
            ours, end = case.decode(b"before" + data + b"after", 6)
            assert end == 6 + len(data), case
            assert_same(ours, theirs, case.version)
            assert type(ours) is case.cls
            assert case.encode(ours) == data, case
            assert case.decode(memoryview(bytearray(data))) == (ours, len(data))


@pytest.mark.parametrize("api", sorted(APIS))
def test_the_table_of_apis_has_their_keys_versions_and_headers(api: str) -> None:
    versions = schema_name_map[api]
    assert api_key_map[APIS[api].key] == api
    assert sorted(versions) == list(range(APIS[api].first, APIS[api].last + 1))
    for case in cases(api) if api in DECLARED else ():
        header = case.entity.__header_schema__
        assert is_flexible(api, case.version) is case.flexible
        if case.kind == "request":
            assert is_flexible(api, case.version) is header.__flexible__
        else:
            assert has_flexible_response_header(api, case.version) is header.__flexible__


def test_every_api_is_in_the_table() -> None:
    assert len(APIS) == len(api_key_map)


def test_all_that_is_served_or_asked_for_is_declared() -> None:
    assert set(DECLARED) == {*SERVED, "sasl_handshake", "sasl_authenticate"}


def test_the_error_codes_are_kafkas() -> None:
    ours = [(each.name, each.value, each.retriable) for each in ErrorCode]
    assert ours == [(each.name, each.value, each.retriable) for each in errors.ErrorCode]
