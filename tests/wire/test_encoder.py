"""Every message class, every version: our compiled encoder against the schemas' own writer."""

import io
import random

import pytest
from kio.schema.index import api_key_map
from kio.serial import entity_writer

from drumlin.wire.compiled.encoder import Parts, encoder
from rig.arbitrary_messages import arbitrary_message, message_classes


@pytest.mark.parametrize("api_name", sorted(api_key_map.values()))
def test_same_bytes_as_the_schemas_own_writer(api_name: str) -> None:
    rng = random.Random(api_name)
    for version, kind, entity in message_classes(api_name):
        for _ in range(8):
            message = arbitrary_message(entity, rng)
            theirs = io.BytesIO()
            entity_writer(entity)(theirs, message)
            parts = Parts()
            encoder(entity)(message, parts)
            assert b"".join(parts.finish()) == theirs.getvalue(), (version, kind, message)
