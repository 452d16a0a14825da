"""Control of a running `up`: a Unix socket in the cluster's directory.

A request is a line of JSON, `{"do": "stop", "member": "2"}`, and so is the response:
`{"done": true}`, or `{"error": "…"}`. `up` locks its directory, so a socket that it
finds at start-up belongs to no running process. Other users cannot connect.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from drumlin.broker.http.admin_socket import short_path
from drumlin.cli.terminal.output import Failure

FILE_NAME: Final = "cluster.sock"
_LINE_BYTES_MAX: Final = 64 << 10

#: Runs a command on a member; returns False if there was nothing to do. Raises `Failure`.
Act = Callable[[str, str], Awaitable[bool]]


class ControlServer:
    """Answers commands until it is closed."""

    def __init__(self, directory: Path, act: Act) -> None:
        self._directory = directory
        self._act = act
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the socket cannot be made.
        """
        path = self._directory / FILE_NAME
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_path(self._directory / FILE_NAME) as short:
            sock.bind(short)
        path.chmod(0o600)
        self._server = await asyncio.start_unix_server(
            self._on_connected, sock=sock, limit=_LINE_BYTES_MAX
        )

    def close(self) -> None:
        """Accept no more commands, and cancel the ones in progress: a start can take long."""
        if self._server is not None:
            self._server.close()
            for task in self._answering:
                task.cancel()
            (self._directory / FILE_NAME).unlink(missing_ok=True)

    def _on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._answer(reader, writer))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(json.dumps(await self._done(reader)).encode() + b"\n")
            await writer.drain()
        except OSError:
            pass  # the client has disconnected
        finally:
            writer.close()

    async def _done(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        """Read a command, run it, and return the answer."""
        try:
            asked = json.loads(await reader.readline())
            return {"done": await self._act(asked["do"], asked["member"])}
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": "this is no command of 'drumlin cluster'"}
        except (Failure, OSError) as error:
            return {"error": str(error)}


def ask(directory: Path, what: str, member: str) -> bool:
    """Have `up` run a command on a member; returns False if there was nothing to do.

    Raises:
        Failure: the command failed, or no cluster runs there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with sock:
        try:
            with short_path(directory / FILE_NAME) as short:
                sock.connect(short)
            sock.sendall(json.dumps({"do": what, "member": member}).encode() + b"\n")
            with sock.makefile("rb") as answers:
                line = answers.readline(_LINE_BYTES_MAX)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            raise not_running(directory) from None
        except OSError as error:
            raise Failure(f"{directory / FILE_NAME}: {error.strerror or error}") from None
    try:
        answer = json.loads(line)
    except ValueError:
        raise Failure(f"the cluster in {directory} went down meanwhile") from None
    if "error" in answer:
        raise Failure(answer["error"])
    return bool(answer["done"])


def not_running(directory: Path) -> Failure:
    """The error if no `up` is running."""
    return Failure(
        f"no cluster runs in {directory}: 'drumlin cluster up --data {directory}' starts one"
    )
