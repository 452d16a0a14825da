"""Brokers that do not keep to the rules of a login: it fails at once, and costs next to nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import drumlin
from drumlin.client.errors import AuthenticationFailed as AuthenticationRefused
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost, InvalidResponse, PeerError
from drumlin.security import OAuthBearer, Plain, Scram, Security
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import Answer, CloseConnection, ScriptedBroker, Silence
from rig.data.messages import Shape
from security.test_scram import ScramServer
from security.test_tokens import jwt

LOGINS = [Plain("alice", "hunter2"), Scram("alice", "hunter2"), OAuthBearer(lambda: "hunter2")]


def options(
    login: Any, connect_timeout_ms: int = 10_000, request_timeout_ms: int = 20_000
) -> PeerOptions:
    return PeerOptions(
        request_timeout_ms=request_timeout_ms,
        connect_timeout_ms=connect_timeout_ms,
        security=Security(None, login),
    )


def handshake(code: ErrorCode = ErrorCode.none, mechanisms: tuple[str, ...] = ()) -> Answer:
    return lambda shape, _: shape("SaslHandshakeResponse", error_code=code, mechanisms=mechanisms)


def authenticated(
    data: bytes, code: ErrorCode = ErrorCode.none, message: str | None = None, lifetime_ms: int = 0
) -> Answer:
    return lambda shape, _: shape(
        "SaslAuthenticateResponse",
        error_code=code,
        error_message=message,
        auth_bytes=data,
        session_lifetime=timedelta(milliseconds=lifetime_ms),
    )


def log_in(broker: ScriptedBroker, settings: PeerOptions) -> None:
    """As a client does, trying again whatever may pass."""

    async def run() -> None:
        connections = BrokerConnections(parse_bootstrap(broker.address), settings)
        try:
            await connections.retrying(lambda: connections.refresh(()))
        finally:
            await connections.close()

    asyncio.run(run())


def huge(shape: Shape, request: Any) -> bytes:
    return (1 << 30).to_bytes(4, "big") + bytes(100_000)


@pytest.mark.parametrize("login", LOGINS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        pytest.param(authenticated(b"\xff" * 5000), AuthenticationFailed, id="no text"),
        pytest.param(authenticated(b"x" * 900_000), AuthenticationFailed, id="endless"),
        pytest.param(authenticated(b"r=a,s=AAAA,i=4096"), AuthenticationFailed, id="any nonce"),
        pytest.param(huge, InvalidResponse, id="a gigabyte"),
        pytest.param(lambda *_: b"\0\0\0\x05garba", PeerError, id="garbage"),
        pytest.param(lambda *_: b"\xff" * 99, InvalidResponse, id="a negative length"),
    ],
)
def test_nonsense_in_a_login_ends_it_at_once(
    login: Any, answer: Answer, kinds: type[PeerError]
) -> None:
    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", answer)
        with pytest.raises(PeerError) as caught:
            log_in(broker, options(login, request_timeout_ms=500))
        if kinds is AuthenticationFailed:
            assert isinstance(caught.value, AuthenticationFailed)
            assert broker.connection_count == 1, "not tried again"
    assert broker.address in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert not broker.asked("metadata"), "nothing is asked of a broker without a login"


@pytest.mark.parametrize("iterations", [1, 2**31])
def test_a_broker_that_wants_the_processor(iterations: int) -> None:
    def first(shape: Shape, request: Any) -> Any:
        nonce = request.auth_bytes.decode().rpartition("r=")[2]
        return authenticated(f"r={nonce}x,s=AAAA,i={iterations}".encode())(shape, request)

    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", first)
        with pytest.raises(AuthenticationFailed, match=f"{iterations} iterations"):
            log_in(broker, options(Scram("alice", "hunter2")))


def test_a_broker_that_accepts_without_a_proof_is_not_trusted() -> None:
    """A broker that does not know the password could say yes to any."""
    server = ScramServer("SCRAM-SHA-512", "another password")
    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script(
            "sasl_authenticate",
            lambda shape, request: authenticated(server.first(request.auth_bytes))(shape, request),
            authenticated(b"v=" + b"A" * 88),
        )
        with pytest.raises(AuthenticationFailed, match="proves wrongly"):
            log_in(broker, options(Scram("alice", "hunter2")))
        assert len(broker.asked("sasl_authenticate")) == 2
        assert not broker.asked("metadata")


@pytest.mark.parametrize("where", ["sasl_handshake", "sasl_authenticate"])
def test_a_broker_that_says_nothing_is_given_up(where: str) -> None:
    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script(where, lambda *_: Silence())
        with pytest.raises(PeerError, match=f"{where} in 80 ms"):
            settings = options(LOGINS[0], connect_timeout_ms=80)
            connections = BrokerConnections(parse_bootstrap(broker.address), settings)
            asyncio.run(connections.any())


def test_what_a_broker_repeats_is_not_told_on() -> None:
    said = "no hunter2 here\n\x1b[31m" + "x" * 5000
    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        failed = ErrorCode.sasl_authentication_failed
        broker.script("sasl_authenticate", authenticated(b"", failed, said))
        with pytest.raises(AuthenticationFailed) as caught:
            log_in(broker, options(Plain("alice", "hunter2")))
    message = str(caught.value)
    assert "user 'alice' cannot log in with PLAIN: no *** here" in message
    assert message.isprintable()
    assert len(message) < 500


def test_a_token_that_a_broker_does_not_take_is_not_told_on_and_not_used_again() -> None:
    given = [jwt(3600, subject) for subject in ("one", "two", "three")]
    tokens = iter(given)
    challenge = authenticated(b'{"status":"invalid_token"}')
    failed = authenticated(b"", ErrorCode.sasl_authentication_failed, f"{given[0]} is no good")
    settings = options(OAuthBearer(lambda: next(tokens)))

    async def thrice(broker: ScriptedBroker) -> list[str]:
        connections = BrokerConnections(parse_bootstrap(broker.address), settings)
        messages = []
        for _ in given:
            with pytest.raises(AuthenticationFailed) as caught:
                await connections.any()
            messages.append(str(caught.value))
        return messages

    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", failed, challenge)
        messages = asyncio.run(thrice(broker))
        sent = [each.auth_bytes for each in broker.asked("sasl_authenticate")]
    assert "*** is no good" in messages[0]
    assert not any(token in message for token in given for message in messages)
    firsts = [each for each in sent if each != b"\x01"]
    assert [token.encode() in each for token, each in zip(given, firsts, strict=True)] == [True] * 3


@pytest.mark.parametrize("port", [-5, 70_000, 2**31 - 1])
def test_a_broker_at_a_port_that_cannot_be_is_out_of_reach(port: int) -> None:
    async def ask(broker: ScriptedBroker) -> None:
        connections = BrokerConnections(parse_bootstrap(broker.address), options(LOGINS[0]))
        await connections.refresh(("t",))
        await connections.leader("t", 0)

    with ScriptedBroker({"t": 1}) as broker:
        broker.brokers, broker.leader_id = {2: port}, 2
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", authenticated(b""))
        with pytest.raises(ConnectionLost, match=f":{port}: that is no address"):
            asyncio.run(ask(broker))


def test_the_mechanisms_on_offer_are_listed() -> None:
    with ScriptedBroker() as broker:
        code = ErrorCode.unsupported_sasl_mechanism
        broker.script("sasl_handshake", handshake(code, ("SCRAM-SHA-256", "GSSAPI")))
        with pytest.raises(AuthenticationFailed, match="PLAIN, but GSSAPI, SCRAM-SHA-256"):
            log_in(broker, options(LOGINS[0]))


def test_a_broker_that_is_away_is_waited_for() -> None:
    with ScriptedBroker() as broker:
        closed = lambda *_: CloseConnection()  # noqa: E731
        broker.script("sasl_handshake", closed, closed, handshake())
        broker.script("sasl_authenticate", authenticated(b""))
        log_in(broker, options(LOGINS[0]))
        assert broker.connection_count == 3


@pytest.mark.parametrize("login", LOGINS[:1], ids=lambda each: type(each).__name__)
def test_requests_wait_while_a_login_is_repeated(login: Any) -> None:
    """KIP-368: none comes between SaslHandshake and SaslAuthenticate, and none is lost."""

    async def run(broker: ScriptedBroker) -> None:
        connections = BrokerConnections(parse_bootstrap(broker.address), options(login))
        while len(broker.asked("sasl_handshake")) < 4:
            await asyncio.gather(*(connections.refresh(()) for _ in range(5)))
        await connections.close()

    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", authenticated(b"", lifetime_ms=50))
        asyncio.run(run(broker))
        assert broker.connection_count == 1
    names = [name for name, _, _ in broker.requests]
    for at, name in enumerate(names):
        if name == "sasl_handshake" and at + 1 < len(names):
            assert names[at + 1] == "sasl_authenticate"


def test_a_login_that_is_refused_later_ends_the_connection() -> None:
    refused = authenticated(b"", ErrorCode.sasl_authentication_failed, "gone")

    async def run(broker: ScriptedBroker) -> None:
        connections = BrokerConnections(parse_bootstrap(broker.address), options(LOGINS[0]))
        try:
            while True:
                await connections.retrying(lambda: connections.refresh(()))
        finally:
            await connections.close()

    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", authenticated(b"", lifetime_ms=50), refused)
        with pytest.raises(AuthenticationFailed, match="gone"):
            asyncio.run(asyncio.wait_for(run(broker), 30))


def test_a_session_ends_with_its_connection() -> None:
    async def run(broker: ScriptedBroker) -> set[Any]:
        connections = BrokerConnections(parse_bootstrap(broker.address), options(LOGINS[0]))
        await connections.refresh(())
        await connections.close()
        await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}

    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", authenticated(b"", lifetime_ms=60_000))
        assert not asyncio.run(run(broker))


def test_a_token_that_cannot_be_had_now_is_asked_for_again() -> None:
    calls = []

    def token() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionRefusedError("the vault is away")
        return "abc"

    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", authenticated(b""))
        log_in(broker, options(OAuthBearer(token)))
    assert len(calls) == 2


def test_a_member_whose_login_is_refused_is_told() -> None:
    """What makes a membership has connections of its own, made later: with a new password, say."""
    with ScriptedBroker({"t": 1}) as broker:
        where = {"node_id": 1, "host": "127.0.0.1", "port": broker.port}
        failed = ErrorCode.sasl_authentication_failed

        def coordinator(shape: Shape, request: Any) -> Any:
            found = shape(
                "Coordinator", key="g", error_code=ErrorCode.none, error_message=None, **where
            )
            zero = timedelta()
            return shape("FindCoordinatorResponse", throttle_time=zero, coordinators=(found,))

        broker.script("sasl_handshake", handshake())
        broker.script("find_coordinator", coordinator)
        broker.script(
            "sasl_authenticate", authenticated(b""), authenticated(b"", failed, "no more")
        )
        with (
            drumlin.connect(broker.address, security=Security(None, LOGINS[0])) as client,
            client.consumer("t", group="g") as consumer,
            pytest.raises(AuthenticationRefused, match="no more"),
        ):
            consumer.poll(timeout_ms=60_000)
