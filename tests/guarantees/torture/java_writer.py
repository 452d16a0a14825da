"""A writer with producers of Apache Kafka's own client, which does transactions v2 (KIP-890)."""

from __future__ import annotations

import base64
import itertools
import queue
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from guarantees.torture.writers import TRANSACTION_TIMEOUT_MS, Gone, Writer
from rig.jvm.jars import java
from rig.servers.apache_kafka import JVM, kafka_classpath

_SOURCE = Path(__file__).with_name("Producers.java")
#: The JVM compiles its program first, which takes as long as the machine is busy.
_ANSWER_S = 180.0

#: The offset of an acknowledged record, as a confluent_kafka Message tells it.
Delivered = Callable[[None, Any], None]


class _Failure:
    """An error as a confluent_kafka KafkaError tells what may be done after it."""

    def __init__(self, kind: str, text: str) -> None:
        self._kind = kind
        self._text = text

    def fatal(self) -> bool:
        return self._kind == "fatal"

    def retriable(self) -> bool:
        return self._kind == "retry"

    def txn_requires_abort(self) -> bool:
        return self._kind == "abort"

    def __str__(self) -> str:
        return self._text


class _Acknowledged:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


class Producers:
    """One JVM with all incarnations of a writer. Commands come from one thread."""

    def __init__(self, bootstrap: str, output: Path) -> None:
        self._numbers = itertools.count()
        self._answers: queue.Queue[str] = queue.Queue()
        self._waiting: dict[str, Delivered] = {}
        with output.open("ab") as sink:
            self._process = subprocess.Popen(
                [
                    *(java(), *JVM, "-cp", kafka_classpath(), str(_SOURCE)),
                    *(bootstrap, str(TRANSACTION_TIMEOUT_MS)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def new(self, transactional_id: str, *settings: object) -> JavaProducer:
        number = str(next(self._numbers))
        self.ask("new", number, transactional_id, *settings)
        return JavaProducer(self, number)

    def ask(self, *command: object) -> None:
        """
        Raises:
            KafkaException: the command has failed.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, command)) + "\n")
        self._process.stdin.flush()
        try:
            answer = self._answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            raise TimeoutError(f"no answer to {command[0]} in {_ANSWER_S:g} s") from None
        outcome, _, why = answer.partition(" ")
        if outcome == "error":
            raise KafkaException(_Failure(*why.split(" ", 1)))

    def expect(self, key: str, delivered: Delivered) -> None:
        self._waiting[key] = delivered

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("ack "):
                self._answers.put(line.rstrip("\n"))
                continue
            _, key, offset = line.split()
            delivered = self._waiting.pop(key, None)
            if delivered is not None:
                delivered(None, _Acknowledged(int(offset)))


class JavaProducer:
    """One incarnation, with the methods of confluent_kafka's Producer that a writer calls."""

    def __init__(self, producers: Producers, number: str) -> None:
        self._producers = producers
        self._number = number

    def __len__(self) -> int:
        return 0  # an abort throws nothing away that has to be waited for

    def init_transactions(self, _timeout_s: float) -> None:
        self._producers.ask("init", self._number)

    def begin_transaction(self) -> None:
        try:
            self._producers.ask("begin", self._number)
        except KafkaException as failure:
            raise Gone from failure

    def commit_transaction(self, _timeout_s: float) -> None:
        self._producers.ask("commit", self._number)

    def abort_transaction(self, _timeout_s: float) -> None:
        self._producers.ask("abort", self._number)

    def produce(
        self, topic: str, value: bytes, key: str, *, partition: int, on_delivery: Delivered
    ) -> None:
        self._producers.expect(key, on_delivery)
        content = base64.b64encode(value).decode()
        self._producers.ask("send", self._number, topic, partition, key, content)

    def poll(self, _timeout_s: float) -> None:
        """Acknowledgements come by themselves."""

    def flush(self, _timeout_s: float) -> None:
        """A commit waits for all of them."""


class JavaWriter(Writer):
    """Like `Writer`."""

    def __init__(self, name: str, bootstrap: str, *others: Any, output: Path) -> None:
        super().__init__(name, bootstrap, *others)
        self._producers = Producers(bootstrap, output)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._producers.close()

    def _make_producer(self) -> Any:
        linger_ms = self._random.choice((0, 5, 50))
        batch_bytes = self._random.choice((200, 16_384))
        codec = self._random.choice(("none", "lz4"))
        return self._producers.new(self.name, linger_ms, batch_bytes, codec)

    def _leave_open(self, producer: Any) -> None:
        try:
            super()._leave_open(producer)
        except KafkaException as failure:  # Java's client tells at once of what went wrong before
            raise Gone from failure
