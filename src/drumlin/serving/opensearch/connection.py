"""HTTP requests to OpenSearch, and their outcomes. Knows nothing of documents."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, unquote

T = TypeVar("T")

_TIMEOUT_S: Final = 60.0
_PORT: Final = 9200
#: The pauses take about a minute in total, enough for a restart of OpenSearch.
_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, *[5.0] * 10)
_TOO_MANY: Final = 429
_UNAUTHORIZED: Final = (401, 403)
_SERVER_ERROR: Final = 500


class Unclear(Exception):
    """It is unknown whether a request has taken effect, or will do so later."""


class Busy(Exception):
    """OpenSearch has refused the request for now; a retry may succeed."""


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def is_right(self) -> bool:
        return self.status < http.HTTPStatus.MULTIPLE_CHOICES


class OpenSearchConnection:
    """The connection of a process. Used by one thread."""

    def __init__(self, where: SplitResult, password: str | None, ca: str | None) -> None:
        """`where`: its scheme is http or https. `ca`: a file with certificates to trust.

        Raises:
            OSError: OpenSearch cannot be reached, or refuses the login.
        """
        host, port = where.hostname or "", where.port or _PORT
        self._address = f"{host}:{port}"
        self._headers = {"Content-Type": "application/json"}
        password = password or (where.password and unquote(where.password))
        if where.username is not None:
            login = f"{unquote(where.username)}:{password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._http: http.client.HTTPConnection
        if where.scheme == "https":
            try:
                trusted = ssl.create_default_context(cafile=ca)
            except OSError as error:  # includes errors of SSL: the file has no certificate
                raise OSError(f"OpenSearch: ca={ca}: {error.strerror}") from None
            self._http = http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT_S, context=trusted
            )
        else:
            self._http = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        try:  # no retry: the address may be wrong
            answer = self.send("GET", "/")
        except (Unclear, Busy) as error:
            raise OSError(f"OpenSearch: {error}") from None
        self.check(answer)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """The answer to a request that may be repeated.

        Raises:
            OSError: OpenSearch cannot be reached for too long.
        """
        return self.retried(lambda: self.send(method, path, body))

    def retried(self, work: Callable[[], T]) -> T:
        """The result of `work`, which is called again after `Unclear` and `Busy`.

        Raises:
            OSError: too many attempts have failed.
        """
        for pause_s in (*_PAUSES_S, None):
            try:
                return work()
            except (Unclear, Busy) as error:
                if pause_s is None:
                    raise OSError(f"OpenSearch: {error}") from None
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request once. `body`: a value to encode as JSON, or bytes.

        Raises:
            Unclear: there was no answer, or a failure of the server.
            Busy: the request was refused for now.
        """
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            self._http.request(method, path, data, self._headers)
            response = self._http.getresponse()
            text = response.read()
            found = json.loads(text) if text else {}
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._http.close()
            raise Unclear(f"{self._address}: {error or type(error).__name__}") from error
        if response.status == _TOO_MANY:
            raise Busy(f"{self._address}: {reason(found)}")
        if response.status >= _SERVER_ERROR:
            raise Unclear(f"{self._address}: {reason(found)}")
        return Answer(response.status, found)

    def check(self, answer: Answer) -> Any:
        """The body of a response.

        Raises:
            OSError: OpenSearch has refused the request.
        """
        if not answer.is_right:
            raise OSError(f"OpenSearch: {self._address}: {answer.status}: {reason(answer.body)}")
        return answer.body

    def close(self) -> None:
        self._http.close()


def reason(body: Any) -> str:
    """The text of the error in a response, or in a part of one."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error)[:500]
    cause = error.get("caused_by")
    said = f"{error.get('type', '')}: {error.get('reason', '')}"
    return f"{said} ({reason(cause)})" if cause else said
