"""A private broker on this machine, for as long as a `with` block lasts.

The broker is a separate process. The test's process reserves its port until the block ends, so no
other process can take it even while the broker is stopped. When the test's process ends, in any
way, the broker ends too, and its files are removed: see `guarded_server`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drumlin.testing.defaults import BROKER_DEFAULTS, Config, as_properties

if TYPE_CHECKING:
    from drumlin.peer.security.security import Security

_HOST: Final = "127.0.0.1"
_STOP_TIMEOUT_S: Final = 30.0
_LOG_SHOWN_CHARACTERS: Final = 8000
#: Keys that are set by the arguments of `broker`.
_TAKEN: Final = {"listeners": "port", "log.dirs": "data", "log.dir": "data"}
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_LENGTH_MAX: Final = 200  # of the 249 that Kafka allows


class BrokerFailed(RuntimeError):
    """The broker did not start, or ended by itself; the message includes its log."""


class Broker:
    """A broker for tests, created by `broker`."""

    def __init__(
        self,
        properties: Mapping[str, str],
        folder: Path,
        data: Path,
        port: int,
        timeout_s: float,
        *,
        is_secure: bool,
    ) -> None:
        #: The folder of the logs.
        self.data = data
        #: The port of 127.0.0.1 on which it listens; it stays the same across restarts.
        self.port = port
        #: Whether clients need TLS and a login; `librdkafka`, `properties` and `security` have it.
        self.is_secure = is_secure
        self._folder = folder
        self._log_file = folder / "broker.log"
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._properties = {
            **properties,
            "listeners": f"{'SASL_SSL' if is_secure else 'PLAINTEXT'}://{_HOST}:{port}",
            "log.dirs": str(data),
        }

    def __repr__(self) -> str:
        return f"<drumlin.testing.Broker {self.bootstrap}>"

    @property
    def bootstrap(self) -> str:
        """The broker's address, for `drumlin.connect`, or bootstrap servers of any Kafka client."""
        return f"{_HOST}:{self.port}"

    @property
    def bootstrap_servers(self) -> str:
        """`bootstrap`, under the name that other clients use."""
        return self.bootstrap

    @property
    def librdkafka(self) -> dict[str, str]:
        """The settings of clients such as confluent-kafka, with a login if the broker is secure."""
        if not self.is_secure:
            return {"bootstrap.servers": self.bootstrap}
        found: dict[str, str] = json.loads((self.data / "client.json").read_text())
        return found

    @property
    def properties(self) -> dict[str, str]:
        """The properties of Java's clients; Spark takes them as options that begin with `kafka.`"""
        from drumlin.config.properties import decode_properties

        if not self.is_secure:
            return {"bootstrap.servers": self.bootstrap}
        return decode_properties((self.data / "client.properties").read_bytes())

    @property
    def security(self) -> Security | None:
        """The argument `security` of `drumlin.connect`."""
        from drumlin.peer.security.security import Security

        return Security.of(self.properties) if self.is_secure else None

    @property
    def log(self) -> str:
        """The broker's log output so far."""
        return self._log_file.read_text("utf-8", "replace") if self._log_file.exists() else ""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` or `kill` has ended the broker, rather than the broker itself."""
        return self._process is None

    # -- start and stop ------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker again after `stop` or `kill`, with the same port and data.

        Raises:
            BrokerFailed: the broker ended, or was not ready in time.
        """
        if self._process is not None:
            raise RuntimeError("the broker was started already")
        arguments = [str(self._folder), json.dumps(self._properties)]
        arguments += ["secure"] if self.is_secure else []
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own server
                [sys.executable, "-P", "-m", "drumlin.testing.guarded_server", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the tests; they stop it in their order
            )
        try:
            self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the broker cleanly, as SIGTERM does.

        Raises:
            BrokerFailed: the broker had ended by itself, or does not end cleanly.
        """
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, as `kill -9` does: nothing is flushed."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the broker cleanly and start it again, with the same port and data."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def topic(
        self, name: str = "test", partitions: int = 1, config: Config | None = None
    ) -> Iterator[str]:
        """A new topic, which is deleted at the end of the `with` block; yields its name.

        Args:
            name: the beginning of the name; a random end makes it unique.
            config: topic configuration, with Kafka's keys.
        """
        import drumlin
        from drumlin.client.errors import UnknownTopic

        begin = _NOT_IN_NAMES.sub("-", name).strip("-")[:_NAME_LENGTH_MAX]
        topic = f"{begin}-{secrets.token_hex(4)}"
        with drumlin.connect(self.bootstrap, security=self.security) as client:
            client.create_topic(topic, partitions, configs=as_properties(config or {}))
        try:
            yield topic
        finally:
            if self.is_running:
                with (
                    drumlin.connect(self.bootstrap, security=self.security) as client,
                    contextlib.suppress(UnknownTopic),
                ):
                    client.delete_topic(topic)

    # -- the process ---------------------------------------------------------------------

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        deadline = time.monotonic() + self._timeout_s
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in said:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._failed(f"was not ready after {self._timeout_s:g} s")
                more = os.read(process.stdout.fileno(), 4096)
                if not more:
                    raise self._failed(f"did not start: it ended with {process.wait()}")
                said += more

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        self._process = None
        ended_with = process.poll()
        try:
            process.send_signal(number)
            code = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise self._failed(f"did not stop within {_STOP_TIMEOUT_S:g} s") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
        if number == signal.SIGTERM and code != 0:
            how = "stopped" if ended_with is None else "ended by itself"
            raise self._failed(f"{how} with {code}")

    def _failed(self, what: str) -> BrokerFailed:
        said = self.log.strip()[-_LOG_SHOWN_CHARACTERS:] or "(nothing)"
        return BrokerFailed(f"the broker {what}. What it wrote:\n{said}")


@contextlib.contextmanager
def broker(
    config: Config | None = None,
    *,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    timeout_s: float = 30.0,
    secure: bool = False,
) -> Iterator[Broker]:
    """A broker that runs for as long as a `with` block lasts.

    Args:
        config: broker configuration, with Kafka's keys; overrides `drumlin.testing.defaults`.
        data: the folder for the logs, which is kept afterwards. By default they are in a
            temporary folder, which is removed with the broker.
        port: the port of 127.0.0.1 to listen on; by default any free one.
        timeout_s: the time that the broker may take to be ready.
        secure: clients need TLS and a login, as with `drumlin server --secure`. The logins in
            `librdkafka`, `properties` and `security` are the administrator's.

    Raises:
        BrokerFailed: the broker did not start; or it had ended by itself before the block ended.
    """
    properties = as_properties({**BROKER_DEFAULTS, **(config or {})})
    for key in _TAKEN.keys() & properties.keys():
        raise ValueError(f"{key} is given by the argument {_TAKEN[key]}, not by config")
    with (
        contextlib.closing(_reserve(port)) as reserved,
        tempfile.TemporaryDirectory(prefix="drumlin-test-", ignore_cleanup_errors=True) as name,
    ):
        folder = Path(name)
        kept = None if data is None else Path(data).absolute()
        running = Broker(
            properties,
            folder,
            kept or folder / "data",
            reserved.getsockname()[1],
            timeout_s,
            is_secure=secure,
        )
        running.start()
        try:
            yield running
        finally:
            if running.is_running and kept is None:
                running.kill()  # the data will not be read
            else:
                running.stop()  # raises if the broker has ended by itself


def _reserve(port: int) -> socket.socket:
    """Reserve a port for the broker, by a socket that is bound to it.

    The socket never listens, so the broker, which sets SO_REUSEADDR too, can listen on the port.
    But the system does not assign it to another process that asks for any free port.
    """
    sock = socket.socket()
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((_HOST, port))
    except BaseException:
        sock.close()
        raise
    return sock
