"""Functions that give tokens: what they may give, by name, and what is told when they fail."""

from __future__ import annotations

import asyncio
import base64
import functools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

import drumlin
from drumlin.cli import app
from drumlin.client import errors as client_errors
from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost, PeerError
from drumlin.peer.security.tokens import TokenSource
from drumlin.security import OAuthBearer, Security, SecurityOptionError, read_properties
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.brokers.scripted_broker import ScriptedBroker
from rig.data.secured_listeners import AUDIENCE, ISSUER
from rig.waiting import wait_until
from security.test_hostile_login import authenticated, handshake
from security.test_properties import BEARER, sasl
from security.test_tokens import had, jwt

MODULE = "company_tokens"
#: What a user writes beside his program; each function is a provider.
SOURCE = """
import asyncio, pathlib

def given(file, **more):
    asked = pathlib.Path(file + ".asked")
    asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
    return pathlib.Path(file).read_text()

async def awaited(file):
    await asyncio.sleep(0)
    return given(file), 2e9

class Tokens:
    @staticmethod
    def given(file):
        return given(file)

nothing = 1

def none():
    pass
"""


class AccessToken(NamedTuple):
    """As azure-identity has it."""

    token: str
    expires_on: int


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a module that can be imported, with a token in the file "token"."""
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    (tmp_path / "token").write_text("abc")
    (tmp_path / "broken_tokens.py").write_text("raise ValueError('hunter2')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in (MODULE, "broken_tokens"):
        sys.modules.pop(name, None)


def named(module: Path, function: str = "given") -> OAuthBearer:
    file = str(module / "token")
    return OAuthBearer(f"{MODULE}:{function}", token_arguments=(("file", file),))


async def _given(answer: Any) -> Any:
    await asyncio.sleep(0)
    return answer


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("give", "asked"),
    [
        (lambda: "abc", 3),
        (lambda: jwt(300), 1),
        (lambda: ("abc", time.time() + 300), 1),
        (lambda: ("abc", int(time.time() * 1000) + 300_000), 1),
        (lambda: AccessToken("abc", int(time.time()) + 300), 1),
        (lambda: ("abc", time.time() - 1), 3),
        (lambda: ("abc", time.time() * 1000 - 1000), 3),
        (lambda: (jwt(300), None), 1),
    ],
)
def test_a_token_is_used_as_long_as_its_provider_says(
    give: Callable[[], Any], asked: int, is_async: bool
) -> None:
    calls = []

    def provider(sort: str) -> Any:
        calls.append(sort)
        return _given(give()) if is_async else give()

    arguments = (("sort", "a"),)
    for each in (provider, functools.partial(provider)):
        del calls[:]
        had(OAuthBearer(each, token_arguments=arguments), times=3)
        assert calls == ["a"] * asked


def test_a_provider_that_has_given_tokens_is_asked_again() -> None:
    """Clouds' packages have errors of their own for what is away for a moment."""
    answers: list[Any] = [RuntimeError("hunter2"), "first", RuntimeError("hunter2"), "second"]

    def provider() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    async def ask() -> None:
        tokens = TokenSource(OAuthBearer(provider), 20_000)
        with pytest.raises(AuthenticationFailed, match="raised RuntimeError"):
            await tokens.token()
        assert await tokens.token() == "first"
        with pytest.raises(ConnectionLost, match="raised RuntimeError"):
            await tokens.token()
        assert await tokens.token() == "second"

    asyncio.run(ask())


def test_a_provider_that_ends_an_iteration_ends_nothing_else() -> None:
    """No future takes a StopIteration: whoever waits for it would wait for ever."""
    with pytest.raises(AuthenticationFailed, match="raised StopIteration"):
        had(OAuthBearer(lambda: next(iter(()))))


def test_an_asynchronous_provider_runs_in_the_clients_own_loop() -> None:
    loops = []

    async def provider() -> tuple[str, float]:
        loops.append(asyncio.get_running_loop())
        return "abc", time.time() + 300

    async def ask() -> None:
        assert await TokenSource(OAuthBearer(provider), 20_000).token() == "abc"
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(ask())


def _raises(error: BaseException) -> Callable[[], Any]:
    def provider() -> Any:
        raise error

    return provider


def _fails(error: BaseException) -> Callable[[], Any]:
    async def provider() -> Any:
        raise error

    return provider


@pytest.mark.parametrize("make", [_raises, _fails], ids=["function", "coroutine"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("hunter2"), AuthenticationFailed),
        (SystemExit("hunter2"), AuthenticationFailed),
        (asyncio.CancelledError("hunter2"), AuthenticationFailed),
        (KeyError("hunter2"), AuthenticationFailed),
        (TimeoutError("hunter2"), ConnectionLost),
        (ConnectionResetError("hunter2"), ConnectionLost),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_is_told_by_its_type_and_place_and_not_by_its_text(
    error: BaseException, kind: type[PeerError], make: Callable[[BaseException], Callable[[], Any]]
) -> None:
    provider = make(error)
    with pytest.raises(kind) as caught:
        had(OAuthBearer(provider))
    said = str(caught.value)
    name = f"security.test_token_providers:{make.__name__}.<locals>.provider raised "
    assert f"the token provider {name}" in said
    assert f"{type(error).__name__} (test_token_providers.py, line " in said
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "hunter2" not in str(seen), "neither where tracebacks show it"
        seen = None if seen.__suppress_context__ else seen.__context__


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "gave nothing; expected a string, or a pair"),
        (b"hunter2", "gave a bytes; expected a string"),
        (("hunter2", 1, 2), "gave a tuple"),
        (("hunter2", 900), "no such time; expected seconds or milliseconds since 1970"),
        (("hunter2", True), "no such time"),
        (("hunter2", float("nan")), "no such time"),
        (("hunter2", "2030"), "no such time"),
        ("hunter 2", "is no bearer token"),
        ("", "is no bearer token"),
    ],
)
def test_what_is_no_token_is_told_and_not_shown(answer: Any, why: str) -> None:
    def provider() -> Any:
        return answer

    with pytest.raises(AuthenticationFailed, match=rf"the token provider .*provider.* {why}") as no:
        had(OAuthBearer(provider))
    assert "hunter" not in str(no.value)


@pytest.mark.parametrize("function", ["given", "awaited", "Tokens.given"])
def test_a_provider_is_found_by_its_name(module: Path, function: str) -> None:
    assert had(named(module, function)) == ["abc"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module:f", "there is no module 'no_such_module' here"),
        (f"{MODULE}:missing", f"there is no 'missing' in '{MODULE}'"),
        (f"{MODULE}:nothing", "that is no function"),
        ("broken_tokens:f", r"importing it raised ValueError \(broken_tokens.py, line 1\)"),
        (f"{MODULE}:given", "missing a required argument: 'file'"),
        (f"{MODULE}:none", "got an unexpected keyword argument 'region'"),
    ],
)
@pytest.mark.usefixtures("module")
def test_a_name_that_leads_nowhere_is_told_before_anything_is_sent(name: str, why: str) -> None:
    module = BEARER.format('region="hunter2"')
    given = sasl("OAUTHBEARER", module) | {"sasl.oauthbearer.token.provider": name}
    with pytest.raises(SecurityOptionError, match=f"token provider {name}: {why}") as caught:
        drumlin.connect("127.0.0.1:1", security=given)
    assert "hunter2" not in str(caught.value)


def _client_file(module: Path, address: str) -> Path:
    file = module / "client.properties"
    jaas = BEARER.format(f'file="{module / "token"}" extension_team="a"')
    file.write_text(
        f"bootstrap.servers={address}\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={jaas}\n"
        f"sasl.oauthbearer.token.provider={MODULE}:given\n"
    )
    return file


def test_a_file_names_the_provider_for_programs_and_commands(
    module: Path, secured_drumlin: DrumlinWithListeners, capsys: pytest.CaptureFixture[str]
) -> None:
    server = secured_drumlin
    token = server.signer.token("alice", aud=AUDIENCE, iss=ISSUER)
    (module / "token").write_text(token)
    file = _client_file(module, server.addresses["signed"])
    security = Security.of(read_properties(file))
    assert isinstance(security.login, OAuthBearer)
    assert security.login.extensions == (("team", "a"),)
    with drumlin.connect(server.addresses["signed"], security=security) as client:
        assert client.list_topics() == ["locked", "open"], "it is alice"
    assert app.main(["topics", "list", "--config", str(file)]) == 0
    assert "locked" in capsys.readouterr().out
    (module / "token").write_text(token[:-9] + "AAAAAAAAA")
    assert app.main(["topics", "list", "--config", str(file)]) == 1
    err = capsys.readouterr().err
    assert f"of the token provider {MODULE}:given cannot log in with OAUTHBEARER" in err
    assert token[:20] not in err


@pytest.mark.deep
def test_a_session_that_ends_with_its_token_gets_another_one(
    secured_drumlin: DrumlinWithListeners,
) -> None:
    """KIP-368: over the same connection, without a gap."""
    calls: list[float] = []

    async def provider() -> tuple[str, float]:
        calls.append(time.time())
        token = secured_drumlin.signer.token("alice", 6, aud=AUDIENCE, iss=ISSUER)
        return token, int(time.time()) + 6

    address = secured_drumlin.addresses["signed"]
    with drumlin.connect(address, security=Security(None, OAuthBearer(provider))) as client:
        first = client.read("open").num_rows
        wait_until(lambda: len(calls) > 1, "another token", 60)
        assert client.read("open").num_rows == first


def test_amazons_signer_by_its_name(
    monkeypatch: pytest.MonkeyPatch, secured_drumlin: DrumlinWithListeners
) -> None:
    """What a broker of MSK gets, byte by byte; and another broker does not take it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    given = sasl("OAUTHBEARER", BEARER.format('region="eu-west-1"')) | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.oauthbearer.token.provider": (
            "aws_msk_iam_sasl_signer.MSKAuthTokenProvider:generate_auth_token"
        ),
    }
    with ScriptedBroker() as broker:
        broker.script("sasl_handshake", handshake())
        broker.script("sasl_authenticate", authenticated(b""))
        drumlin.connect(broker.address, security=given).close()
        message = broker.asked("sasl_authenticate")[0].auth_bytes
        assert broker.asked("sasl_handshake")[0].mechanism == "OAUTHBEARER"
    assert message.startswith(b"n,,\x01auth=Bearer ")
    assert message.endswith(b"\x01\x01")
    token = message.removeprefix(b"n,,\x01auth=Bearer ").removesuffix(b"\x01\x01")
    url = urlsplit(base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4)).decode())
    asked = parse_qs(url.query)
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert asked["X-Amz-Expires"] == ["900"]
    assert "hunter2" not in url.query
    refused = "MSKAuthTokenProvider:generate_auth_token cannot log in with OAUTHBEARER"
    with pytest.raises(client_errors.AuthenticationFailed, match=refused) as caught:
        drumlin.connect(secured_drumlin.addresses["signed"], security=given)
    assert token.decode()[:20] not in str(caught.value)
