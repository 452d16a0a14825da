"""A small schema registry: the part of the REST API that clients use, in memory.

It can be told to want a login, to fail for a while, and to speak TLS; it counts what it is asked.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Answer = tuple[int, dict[str, Any]]


class RegistryRig:
    """What the registry holds, and how it behaves."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: Counter[str] = Counter()
        self.login: str | None = None
        #: Subjects of which it finds further versions incompatible.
        self.closed: set[str] = set()
        #: So many of the next answers are these.
        self.failures: list[tuple[int, bytes]] = []
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}

    def add(
        self,
        subject: str,
        schema: object,
        kind: str = "AVRO",
        references: list[dict[str, Any]] | None = None,
    ) -> int:
        """Register a schema; its id. One that is text is taken as it is."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry = {"schema": text, "schemaType": kind, "references": references or []}
        if entry not in self._schemas:
            self._schemas.append(entry)
        schema_id = self._schemas.index(entry) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        parts = [unquote(each) for each in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["schemas", "ids", number]:
                if not number.isdigit() or not 0 < int(number) <= len(self._schemas):
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                return 200, self._told(int(number))
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, version)
            case "POST", ["subjects", subject, "versions"]:
                wanted = json.loads(body)
                kind = wanted.get("schemaType", "AVRO")
                if subject in self.closed and wanted["schema"] not in self.versions(subject):
                    message = f'Schema being registered is incompatible, subject "{subject}"'
                    return 409, {"error_code": 409, "message": message}
                return 200, {"id": self.add(subject, wanted["schema"], kind)}
        return 404, {"error_code": 404, "message": f"{method} {path}"}

    def versions(self, subject: str) -> list[str]:
        """The texts of a subject's versions."""
        return [self.text(each) for each in self._subjects.get(subject, [])]

    def text(self, schema_id: int) -> str:
        found: str = self._schemas[schema_id - 1]["schema"]
        return found

    def _version(self, subject: str, version: str) -> Answer:
        versions = self._subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = len(versions) if version == "latest" else int(version)
        if not 0 < number <= len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        schema_id = versions[number - 1]
        return 200, self._told(schema_id) | {
            "id": schema_id,
            "subject": subject,
            "version": number,
        }

    def _told(self, schema_id: int) -> dict[str, Any]:
        # As registries do: what is empty or the default is left out.
        entry = self._schemas[schema_id - 1]
        return {
            name: each for name, each in entry.items() if each and (name, each) != _DEFAULT_KIND
        }


_DEFAULT_KIND = ("schemaType", "AVRO")


@contextmanager
def running_registry(
    certificate: str | None = None, key: str | None = None
) -> Iterator[RegistryRig]:
    """A registry on a free port of loopback; with a certificate, by TLS."""
    rig = RegistryRig()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(rig))
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    rig.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield rig
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(rig: RegistryRig) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond("GET", b"")

        def do_POST(self) -> None:
            self._respond("POST", self.rfile.read(int(self.headers["Content-Length"])))

        def _respond(self, method: str, body: bytes) -> None:
            rig.requests[self.path] += 1
            if rig.failures:
                self._send(*rig.failures.pop(0))
                return
            login = self.headers.get("Authorization", "")
            if rig.login is not None and login != _basic(rig.login):
                status, answer = HTTPStatus.UNAUTHORIZED, {"message": f"Unauthorized: {login}"}
            else:
                status, answer = rig.answer(method, self.path, body)
            self._send(status, json.dumps(answer).encode())

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if 300 <= status < 400:
                self.send_header("Location", f"{rig.url}/schemas/ids/1")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Tests need no log."""

    return Handler


def _basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()
