"""The table of headers says what the schemas say."""

from __future__ import annotations

import importlib

import pytest
from kio.schema.index import schema_name_map

from drumlin.wire.compiled.header_layouts import (
    has_flexible_request_header,
    has_flexible_response_header,
)
from drumlin.wire.messages import API_KEYS


@pytest.mark.parametrize("api", sorted(API_KEYS))
def test_every_version_has_the_headers_of_its_schema(api: str) -> None:
    camel = "".join(part.capitalize() for part in api.split("_"))
    for version in schema_name_map[api]:
        flexible = []
        for kind in ("request", "response"):
            module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
            entity = getattr(module, camel + kind.capitalize())
            flexible.append(entity.__header_schema__.__flexible__)
        assert has_flexible_request_header(api, version) is flexible[0]
        assert has_flexible_response_header(api, version) is flexible[1]
