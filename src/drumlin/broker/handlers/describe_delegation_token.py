"""DescribeDelegationToken (key 41), versions 1-3: the tokens of owners. See `unsecured.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import no_tokens
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
    from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse


async def handle(
    _: RequestContext, __: DescribeDelegationTokenRequest, shape: Shape
) -> DescribeDelegationTokenResponse:
    return shape(
        "DescribeDelegationTokenResponse", throttle_time=ZERO, error_code=no_tokens(), tokens=()
    )
