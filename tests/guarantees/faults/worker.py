"""A client that does the same again and again, whatever it is answered.

It knows when the last step began that has succeeded: so it can be said whether the broker serves
its kind again. A request that is neither answered nor refused is a failure at any time.
"""

from __future__ import annotations

import http.client
import threading
import time
import traceback
from collections.abc import Iterable
from typing import Final

from drumlin.wire.error_codes import ErrorCode
from rig.data.raw import Closed, NoAnswer, RawClient

#: Longer than a shortage and what it takes the broker to be whole again.
ANSWER_S: Final = 40.0
_PAUSE_S: Final = 0.03


class Refused(Exception):
    """The broker has answered with an error."""


def check(code: int, what: str) -> None:
    if code != ErrorCode.none:
        raise Refused(f"{what}: {ErrorCode(code).name}")


class Worker(threading.Thread):
    """Does `step` until it is told to stop."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(daemon=True, name=name)
        self.port = port
        #: What must never happen has.
        self.failures: list[str] = []
        #: What the last step has failed with.
        self.trouble = ""
        self.steps = 0
        self._began_at = 0.0  # of the last step that succeeded
        self._client: RawClient | None = None
        self._stopping = threading.Event()

    def has_succeeded_since(self, moment_s: float) -> bool:
        """Whether a step that began later has succeeded."""
        return self._began_at > moment_s

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            began_at = time.monotonic()
            try:
                self.step()
            except NoAnswer:
                self.failures.append(f"{self.name}: a request was never answered")
                self.disconnect()
            except (OSError, Closed, http.client.HTTPException, Refused) as error:
                self.trouble = f"{type(error).__name__}: {error}"
                self.disconnect()
            except Exception as error:
                self.failures.append("".join(traceback.format_exception(error)))
                break
            else:
                self._began_at, self.steps = began_at, self.steps + 1
            self._stopping.wait(_PAUSE_S)
        self.disconnect()

    def step(self) -> None:
        raise NotImplementedError

    @property
    def client(self) -> RawClient:
        if self._client is None:
            self._client = RawClient(self.port, self.name, ANSWER_S)
        return self._client

    def find_coordinator(self, kind: int, key: str) -> None:
        answer = self.client.ask("find_coordinator", 4, key_type=kind, coordinator_keys=[key])
        check(answer.coordinators[0].error_code, "find_coordinator")

    def disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def verify(self, client: RawClient) -> Iterable[str]:
        """What is wrong, when all is over."""
        del client
        return ()
