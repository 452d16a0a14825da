"""A request that failed has an answer wherever its response has room for an error."""

from __future__ import annotations

import pytest

from drumlin.broker.apis.served import SERVED
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import encode_response, error_response, parse_response


@pytest.mark.parametrize("api", SERVED)
def test_an_error_is_told_in_every_version(api: str) -> None:
    lowest, highest = SERVED[api]
    for version in range(lowest, highest + 1):
        answer = error_response(api, version, ErrorCode.unknown_server_error)
        if answer is None:
            continue
        frame = b"".join(encode_response(api, version, 7, answer))
        correlation_id, read = parse_response(api, version, frame[4:])
        assert correlation_id == 7
        assert read.error_code is ErrorCode.unknown_server_error
