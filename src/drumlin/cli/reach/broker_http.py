"""HTTP with a running broker: through the socket in its data directory, or its metrics listener."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from drumlin.broker.http.admin_socket import FILE_NAME, connect_to_admin_socket
from drumlin.cli.terminal.output import Failure
from drumlin.storage.directory.directory_lock import is_locked

_CONNECT_S: Final = 10.0
_LOOK_S: Final = 120.0
_ANSWER_BYTES_MAX: Final = 1 << 30


class BrokerHttp:
    """A client of one broker; each request has a connection of its own."""

    def __init__(self, where: str, host: str, port: int, directory: Path | None) -> None:
        self.where = where
        self._host = host
        self._port = port
        self._directory = directory

    def get(self, path: str, *, timeout_s: float | None = _LOOK_S, **query: object) -> Any:
        """Get the JSON at `path`.

        Raises:
            Failure: the broker does not answer, or answers with an error.
        """
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", f"{path}?{urlencode(given)}" if given else path, None, timeout_s)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Post JSON and return the answer, without a timeout. Raises as `get`."""
        return self._ask("POST", path, json.dumps(body).encode(), None)

    def state(self, path: str, timeout_s: float) -> tuple[bool, dict[str, Any]]:
        """Whether the server is as `path` asks (200, not 503), and what it says of that.

        Raises:
            Failure: the server does not answer, or it cannot say.
        """
        status, answer = self._answer("GET", path, None, timeout_s)
        is_state = status == http.client.SERVICE_UNAVAILABLE and "error" not in answer
        if status != http.client.OK and not is_state:
            raise Failure(str(answer.get("error", f"{self.where}: not a Drumlin broker")))
        return status == http.client.OK, answer

    def text(self, path: str) -> str:
        """Get the text at `path`. Raises as `get`."""
        status, content = self._exchange("GET", path, None, _LOOK_S)
        if status != http.client.OK:
            raise Failure(f"{self.where}: not a Drumlin broker")
        return content.decode(errors="replace")

    def _ask(self, method: str, path: str, body: bytes | None, timeout_s: float | None) -> Any:
        status, answer = self._answer(method, path, body, timeout_s)
        if status != http.client.OK:
            raise Failure(answer.get("error") or f"{self.where}: not a Drumlin broker")
        return answer

    def _answer(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None
    ) -> tuple[int, dict[str, Any]]:
        status, content = self._exchange(method, path, body, timeout_s)
        try:
            answer = json.loads(content)
        except ValueError as error:
            raise Failure(f"{self.where}: not a Drumlin broker") from error
        if not isinstance(answer, dict):
            raise Failure(f"{self.where}: not a Drumlin broker")
        return status, answer

    def _exchange(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_CONNECT_S)
        try:
            if self._directory is None:
                connection.connect()
            else:
                connection.sock = connect_to_admin_socket(self._directory, _CONNECT_S)
            connection.sock.settimeout(timeout_s)
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read(_ANSWER_BYTES_MAX)
        except OSError as error:
            raise Failure(f"{self.where}: {error.strerror or error}") from error
        except (http.client.HTTPException, ValueError) as error:
            raise Failure(f"{self.where}: not a Drumlin broker") from error
        finally:
            connection.close()


def broker_at(address: str) -> BrokerHttp:
    """The broker whose metrics are served on HOST:PORT.

    Raises:
        ValueError: the text is not an address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is no address: expected HOST:PORT")
    return BrokerHttp(address, host.strip("[]"), int(port), None)


def broker_on(directory: Path) -> BrokerHttp | None:
    """The broker that runs on a data directory; None if none does.

    Raises:
        Failure: a broker runs there, but cannot be reached.
    """
    if not directory.is_dir():
        raise Failure(f"{directory}: no such directory")
    try:
        connect_to_admin_socket(directory, _CONNECT_S).close()
    except (FileNotFoundError, ConnectionRefusedError):
        if is_locked(str(directory)):
            raise Failure(
                f"a server runs on {directory}, but its socket {FILE_NAME} is missing: "
                "give the first of its log.dirs"
            ) from None
        return None
    except OSError as error:
        raise Failure(f"{directory / FILE_NAME}: {error.strerror or error}") from error
    return BrokerHttp(str(directory), "localhost", 0, directory)
