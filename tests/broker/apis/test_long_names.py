"""Names as long as the protocol allows: whatever is wrong with them, there is an answer."""

from __future__ import annotations

from typing import Any

import pytest

from drumlin.broker.apis.served import SERVED
from drumlin.wire.messages import schema_versions
from drumlin.wire.schema.types import STRING, Array, Struct
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import fields_there, item_of, payload_class

_LONG = "x" * 32_760
#: What they are asked for but strings, where an answer needs it.
_FIELDS: dict[str, dict[str, int]] = {
    "produce": {"acks": 1},
    "describe_acls": {"resource_type_filter": 1, "pattern_type_filter": 1},
    "create_acls": {"resource_type": 1, "resource_pattern_type": 1},
    "delete_acls": {"resource_type_filter": 1, "pattern_type_filter": 1},
}
_OF_ACLS = {"operation": 1, "permission_type": 1}


def _filled(api: str, cls: Any, version: int) -> dict[str, Any]:
    """Each array with one element, each string as long as can be."""
    numbers = _FIELDS.get(api, {}) | (_OF_ACLS if api.endswith("_acls") else {})
    filled: dict[str, Any] = {}
    for field in fields_there(cls, version):
        item = item_of(field.type)
        if isinstance(field.type, Array):
            if isinstance(item, Struct):
                filled[field.name] = [_filled(api, item.of, version)]
            elif item is STRING:
                filled[field.name] = [_LONG]
        elif item is STRING:
            filled[field.name] = _LONG
        elif field.name in numbers:
            filled[field.name] = numbers[field.name]
    return filled


@pytest.mark.parametrize("api", SERVED)
def test_there_is_an_answer(server: DrumlinServer, api: str) -> None:
    lowest, highest = schema_versions(api)
    for version in range(max(SERVED[api][0], lowest), min(SERVED[api][1], highest) + 1):
        said_before = len(server.said())
        request = _filled(api, payload_class(api, "request"), version)
        with server.connect() as client:
            client.ask(api, version, **request)
        said = server.said()[said_before:]
        assert f"{api} v{version} failed" not in said, said
