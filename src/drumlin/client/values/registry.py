"""A schema registry over its REST API: the calls, their retries and their responses.

Owns the only connections that typed values make. It keeps nothing between calls
(`schema_cache.py` does), follows no redirect (which could leak a password), and limits the size of
a response.
"""

from __future__ import annotations

import base64
import functools
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, IncompleteRead
from typing import Any, Final, Literal

from drumlin.client.values.errors import RegistryError, RegistryUnavailable, UnknownSchema
from drumlin.peer.retry import Deadline
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import Tls, revealed
from drumlin.peer.security.tls import context_of

_ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
_REFERENCES_MAX: Final = 500
#: The maximum length of a registry's error message.
_MESSAGE_MAX: Final = 4096
_PIECE: Final = 64 * 1024
#: Ids are non-negative signed 32-bit integers.
ID_MAX: Final = 2**31 - 1
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_PAUSE_MS: Final = 100
_PAUSE_MAX_MS: Final = 2000
_NOT_FOUND: Final = 404
#: A registry's own error codes for an unknown subject, version or schema. A 404 without one comes
#: from a proxy, which may not have found the registry.
_UNKNOWN: Final = (40401, 40402, 40403)
#: Failures of the registry, or too many requests: worth a retry.
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class SchemaRegistry:
    """The address of a schema registry, and the login there.

    Args:
        url: such as `https://registry.example:8081`, without a user and a password.
        username: the user for basic authentication, with `password`.
        token: the token for bearer authentication, instead of a user.
        tls: the trusted certificates and the client's own; for `https` only.
        timeout_ms: the timeout of one request.
        patience_ms: the time for which a request is retried while the registry is down or fails,
            or does not have a schema.
        unknown_ids_are_bad: values with an unknown schema are bad records. By default they end
            the reading: the schema may be missing temporarily, or the registry the wrong one.
    """

    url: str
    username: str | None = None
    password: str | Secret | None = None
    token: str | Secret | None = None
    tls: Tls = field(default_factory=Tls)
    timeout_ms: int = 10_000
    patience_ms: int = 30_000
    unknown_ids_are_bad: bool = False

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a schema registry's url is http://HOST:PORT or https://HOST:PORT")
        if parts.username is not None or parts.password is not None:
            raise ValueError("user and password of a schema registry are separate arguments")
        if (self.username is None) != (self.password is None):
            raise ValueError("basic authentication needs a user name and a password")
        if self.username is not None and self.token is not None:
            raise ValueError("either a user or a token, not both")
        if self.timeout_ms <= 0 or self.patience_ms < 0:
            raise ValueError("timeout_ms is at least 1, patience_ms at least 0")
        for name in ("password", "token"):
            secret = getattr(self, name)
            if secret is not None:
                object.__setattr__(self, name, Secret(secret))
        object.__setattr__(self, "url", self.url.rstrip("/"))


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema in the registry. `kind` is AVRO, PROTOBUF or JSON."""

    id: int
    kind: str
    text: str
    #: The referenced schemas by their names in the references, each after those that it needs.
    references: tuple[tuple[str, str], ...] = ()


def as_registry(registry: SchemaRegistry | str) -> SchemaRegistry:
    """The registry; a plain url stands for a registry without a login."""
    return SchemaRegistry(registry) if isinstance(registry, str) else registry


def schema_of_id(registry: SchemaRegistry, schema_id: int) -> RegisteredSchema:
    """The schema with this id.

    Raises:
        UnknownSchema, RegistryError, RegistryUnavailable
    """
    answer = _call(registry, f"/schemas/ids/{schema_id}")
    return _schema(registry, answer, schema_id)


def latest_schema(registry: SchemaRegistry, subject: str) -> RegisteredSchema:
    """The latest version of a subject.

    Raises:
        UnknownSchema, RegistryError, RegistryUnavailable
    """
    return schema_of_version(registry, subject, "latest")


def schema_of_version(
    registry: SchemaRegistry, subject: str, version: int | Literal["latest"]
) -> RegisteredSchema:
    """A version of a subject; the first one is 1.

    Raises:
        UnknownSchema, RegistryError, RegistryUnavailable
    """
    answer = _call(registry, f"{_subject(subject)}/versions/{version}")
    return _schema(registry, answer, _id(answer))


def register(registry: SchemaRegistry, subject: str, kind: str, text: str) -> int:
    """Register a schema as a subject's latest version, unless it is one already; returns its id.

    Raises:
        RegistryError: for example, the schema is incompatible with earlier versions.
        RegistryUnavailable
    """
    wanted = {"schema": text} | ({} if kind == "AVRO" else {"schemaType": kind})
    return _id(_call(registry, f"{_subject(subject)}/versions", wanted))


def _subject(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}"


def _schema(
    registry: SchemaRegistry, answer: Mapping[str, Any], schema_id: int
) -> RegisteredSchema:
    found: dict[str, str] = {}
    _follow(registry, answer, found, set())
    kind = str(answer.get("schemaType") or "AVRO").upper()
    return RegisteredSchema(schema_id, kind, _text(answer), tuple(found.items()))


def _follow(
    registry: SchemaRegistry,
    answer: Mapping[str, Any],
    found: dict[str, str],
    seen: set[str],
) -> None:
    """Add the texts of all schemas that a schema references, in order of dependency.

    Raises:
        RegistryError: there are too many of these schemas, or a reference is invalid.
    """
    references = answer.get("references") or []
    if not isinstance(references, list):
        raise RegistryError(f"{registry.url}: a schema has invalid references: {references!r}")
    for each in references:
        try:
            name, subject, version = str(each["name"]), str(each["subject"]), int(each["version"])
        except (TypeError, KeyError, ValueError, OverflowError):
            raise RegistryError(f"{registry.url}: invalid schema reference: {each!r}") from None
        if name in seen:
            continue
        seen.add(name)
        if len(seen) > _REFERENCES_MAX:
            raise RegistryError(f"a schema references more than {_REFERENCES_MAX} others")
        referred = _call(registry, f"{_subject(subject)}/versions/{version}")
        _follow(registry, referred, found, seen)
        found[name] = _text(referred)
        if sum(map(len, found.values())) > _ANSWER_BYTES_MAX:
            raise RegistryError(f"a schema references more than {_ANSWER_BYTES_MAX} characters")


def _text(answer: Mapping[str, Any]) -> str:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise RegistryError("the schema registry's response has no schema")
    return text


def _id(answer: Mapping[str, Any]) -> int:
    value = answer.get("id")
    if not isinstance(value, int) or not 0 <= value <= ID_MAX:
        raise RegistryError(f"the schema registry's response has no id, but {value!r:.100}")
    return value


def _call(
    registry: SchemaRegistry, path: str, body: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Send a request, with retries while the registry is unavailable."""
    deadline = Deadline(registry.patience_ms)
    pause_ms = _PAUSE_MS
    while True:
        try:
            return _request(registry, path, body)
        except RegistryUnavailable:
            if pause_ms / 1000 > deadline.remaining_s:
                raise
        time.sleep(pause_ms / 1000)
        pause_ms = min(2 * pause_ms, _PAUSE_MAX_MS)


def _request(
    registry: SchemaRegistry, path: str, body: Mapping[str, str] | None
) -> Mapping[str, Any]:
    headers = {"Accept": f"{_CONTENT_TYPE}, application/json", **_login(registry)}
    if body is not None:
        headers["Content-Type"] = _CONTENT_TYPE
    request = urllib.request.Request(  # noqa: S310  the scheme was checked
        registry.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers=headers,
    )
    where = f"schema registry {registry.url}{path}"
    deadline = Deadline(registry.timeout_ms)
    try:
        with _opener(registry.tls).open(request, timeout=registry.timeout_ms / 1000) as response:
            content = _content(response, deadline)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(registry, where, error, deadline) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise RegistryUnavailable(f"{where}: {reason or type(error).__name__}") from None
    return _parsed(where, content)


def _content(response: Any, deadline: Deadline) -> bytes:
    """The content of a response, read up to just over the limit.

    Raises:
        TimeoutError: each piece of the response arrived in time, but not the whole.
        IncompleteRead: the connection was closed early.
    """
    content = bytearray()
    while len(content) <= _ANSWER_BYTES_MAX:
        piece = response.read1(_PIECE)
        if not piece and response.length:
            raise IncompleteRead(bytes(content), response.length)
        if not piece:
            break
        content += piece
        if deadline.is_over:
            raise TimeoutError("timed out")
    return bytes(content)


def _parsed(where: str, content: bytes) -> Mapping[str, Any]:
    if len(content) > _ANSWER_BYTES_MAX:
        raise RegistryError(f"{where}: the response is larger than {_ANSWER_BYTES_MAX} bytes")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise RegistryError(f"{where}: the response is not JSON: is it a registry?") from None
    if not isinstance(answer, dict):
        raise RegistryError(f"{where}: the response is no JSON object: is it a registry?")
    return answer


def _refusal(
    registry: SchemaRegistry, where: str, error: urllib.error.HTTPError, deadline: Deadline
) -> RegistryError:
    try:
        answer = json.loads(_content(error, deadline))
    except (ValueError, RecursionError, OSError, HTTPException):
        answer = None
    answer = answer if isinstance(answer, dict) else {}
    message = f"{where}: {error.code} {str(answer.get('message', error.reason))[:_MESSAGE_MAX]}"
    for secret in (registry.password, registry.token):
        if isinstance(secret, Secret):
            message = secret.hidden_in(message)
    if error.code == _NOT_FOUND and answer.get("error_code") in _UNKNOWN:
        return UnknownSchema(message)
    if error.code == _NOT_FOUND:
        return RegistryUnavailable(f"{message}; is it a schema registry?")
    return RegistryUnavailable(message) if error.code in _TRANSIENT else RegistryError(message)


def _login(registry: SchemaRegistry) -> dict[str, str]:
    if registry.token is not None:
        return {"Authorization": f"Bearer {revealed(registry.token)}"}
    if registry.username is None or registry.password is None:
        return {}
    user = f"{registry.username}:{revealed(registry.password)}".encode()
    return {"Authorization": "Basic " + base64.b64encode(user).decode("ascii")}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error, like any other response without the schema."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@functools.lru_cache(maxsize=8)
def _opener(tls: Tls) -> urllib.request.OpenerDirector:
    secured = urllib.request.HTTPSHandler(context=context_of(tls))
    return urllib.request.build_opener(_NoRedirects(), secured)
