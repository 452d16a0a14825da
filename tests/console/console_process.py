"""`drumlin console` as a subprocess, and someone who asks it as a page would, or as an attacker."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from rig.brokers.process import BrokerProcess
from rig.waiting import wait_until


class ConsoleProcess(BrokerProcess):
    """One console on a port that it chooses itself."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        super().__init__(directory / "console.out")
        self._arguments = arguments
        self.is_tls = "--tls-certificate" in arguments
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://127.0.0.1:{self.port}/"

    def start(self) -> None:
        command = [sys.executable, "-m", "drumlin", "console", "--listen", "127.0.0.1:0"]
        self.launch([*command, *self._arguments])

        def ready() -> re.Match[str] | None:
            self.fail_if_ended()
            return re.search(r"ready on https?://127\.0\.0\.1:(\d+)/", self.said())

        self.port = int(wait_until(ready, "drumlin console to be ready")[1])


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


class Visitor:
    """Someone with a browser's cookie and the page's token."""

    def __init__(self, console: ConsoleProcess) -> None:
        self._console = console
        self.cookie = ""
        self.token = ""

    @property
    def port(self) -> int:
        return self._console.port

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request with these headers and no others, but for Host where it is not given."""
        connection = self._connection()
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        port = self._console.port
        if not self._console.is_tls:
            return http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)

    @property
    def own_headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie, "X-Drumlin-Token": self.token}

    def get(self, path: str, **parameters: object) -> Answer:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return self.ask("GET", f"/api/{path}{query}", headers=self.own_headers)

    def post(self, path: str, body: object) -> Answer:
        headers = self.own_headers | {"Content-Type": "application/json"}
        return self.ask("POST", f"/api/{path}", json.dumps(body).encode(), headers)

    def login(self, **credentials: str) -> Answer:
        answer = self.post("login", credentials)
        if answer.status == 200:
            cookies = SimpleCookie(answer.headers["set-cookie"])
            self.cookie = "; ".join(f"{name}={each.value}" for name, each in cookies.items())
            self.token = answer.json["token"]
        return answer
