"""OAUTHBEARER as providers have it: Kafka's own validator checks who signed a token, for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import drumlin
from drumlin.client.errors import AuthenticationFailed
from drumlin.security import Security
from rig.data.secured_listeners import AUDIENCE, ISSUER, Secured
from rig.servers.token_signer import TokenSigner
from security.test_tokens import Endpoint, login

pytestmark = pytest.mark.kafka

FOR_KAFKA: dict[str, Any] = {"aud": AUDIENCE, "iss": ISSUER}


def test_a_signed_token_of_an_endpoint_lets_one_in(secured: Secured) -> None:
    token = secured.signer.token("alice", **FOR_KAFKA)
    with Endpoint((200, {"access_token": token, "expires_in": 3600})) as endpoint:
        security = Security(None, login(endpoint.url, scope="kafka"))
        with drumlin.connect(secured.addresses["signed"], security=security) as client:
            assert client.read("open").column("value").to_pylist()[:2] == [b"one", b"two"]
            assert client.list_topics() == ["locked", "open"], (
                "it is alice: hidden is not to be seen"
            )
    ((_, _, fields),) = endpoint.asked
    assert fields == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda signer: signer.token("alice", **FOR_KAFKA | {"aud": "shop"}), "audience 'shop'"),
        (
            lambda signer: signer.token("alice", **FOR_KAFKA | {"iss": "https://x"}),
            "issuer 'https://x'",
        ),
        (lambda signer: signer.token("alice", -600, **FOR_KAFKA), "expired 60"),
        (lambda _: TokenSigner("another", seed=2).token("alice", **FOR_KAFKA), "key 'another'"),
        (lambda signer: signer.token("alice", **FOR_KAFKA)[:-9] + "AAAAAAAAA", "invalid_token"),
    ],
    ids=["for others", "of another issuer", "expired", "of an unknown key", "forged"],
)
def test_a_token_that_is_not_taken_ends_in_one_sentence(
    secured: Secured, make: Callable[[TokenSigner], str], why: str
) -> None:
    token = make(secured.signer)
    with Endpoint((200, {"access_token": token, "expires_in": 3600})) as endpoint:
        address = secured.addresses["signed"]
        with pytest.raises(AuthenticationFailed) as caught:
            drumlin.connect(address, security=Security(None, login(endpoint.url)))
    message = str(caught.value)
    assert address in message
    assert why in message
    assert "\n" not in message
    assert token not in message
    assert "hunter2" not in message
