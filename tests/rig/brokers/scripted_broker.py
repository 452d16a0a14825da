"""A broker that follows a script: for faults that no healthy broker shows.

It speaks over a real socket, in a thread of its own. Each request is given to the answers that
were scripted for its API, one after the other; the last one stays. ApiVersions and Metadata
are answered by default, with one broker (itself) that leads every partition of its topics.
"""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from uuid import UUID

from drumlin.wire import protocol
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import (
    API_KEYS,
    ZERO,
    encode_response,
    parse_request,
    parse_request_header,
    schema_versions,
)
from rig.data.messages import Shape, response_shape
from rig.loop_thread import LoopThread

#: Given the response's shape and the request: a response, raw bytes to send, or an action; or
#: what gives that when it is awaited.
Answer = Callable[[Shape, Any], Any]
_NAMES = {key: name for name, key in API_KEYS.items()}
#: The APIs whose messages are declared.
DECLARED = sorted(each.name for each in pkgutil.iter_modules(protocol.__path__))


class CloseConnection:
    """Instead of a response: close, after sending `first`."""

    def __init__(self, first: bytes = b"") -> None:
        self.first = first


class Silence:
    """Instead of a response: nothing."""


class ScriptedBroker(LoopThread):
    """Use it as a context manager; `address` is "127.0.0.1:port"."""

    def __init__(
        self, topics: dict[str, int] | None = None, node_id: int = 1, port: int = 0
    ) -> None:
        super().__init__()
        self.topics = topics or {}
        self.topic_ids: dict[str, UUID] = {}
        self.node_id = node_id
        self.versions = {name: schema_versions(name) for name in DECLARED}
        self.requests: list[tuple[str, int, Any]] = []
        self.connection_count = 0
        self.port = port
        self.brokers: dict[int, int] = {}  # other brokers' ports, for metadata
        self.leader_id = node_id
        self._answers: dict[str, list[Answer]] = defaultdict(list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def script(self, api_name: str, *answers: Answer) -> None:
        """Answers for the next requests of this API; the last one is for all that follow."""
        self._answers[api_name] = list(answers)

    def asked(self, api_name: str) -> list[Any]:
        """The requests of one API that have come so far."""
        return [message for name, _, message in self.requests if name == api_name]

    async def _start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._servers.append(server)
        self.port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests may wait for their answers together; those are sent in order, as by brokers."""
        self.connection_count += 1
        answers: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
        sending = asyncio.ensure_future(self._send(answers, writer))
        begun = []
        try:
            while not sending.done():
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                begun.append(asyncio.ensure_future(self._respond(frame)))
                answers.put_nowait(begun[-1])
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            for task in (*begun, sending):
                task.cancel()
            writer.close()

    async def _send(
        self, answers: asyncio.Queue[asyncio.Task[Any]], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            answer = await (await answers.get())
            if isinstance(answer, CloseConnection):
                writer.write(answer.first)
                writer.close()
                return
            writer.write(answer)

    async def _respond(self, frame: bytes) -> Any:
        """What to send, or to do."""
        header = parse_request_header(frame)
        name = _NAMES[header.api_key]
        request = parse_request(name, header.api_version, frame, header.size)
        self.requests.append((name, header.api_version, request))
        response = self._answer(name)(response_shape(name, header.api_version), request)
        if inspect.isawaitable(response):
            response = await response
        if isinstance(response, Silence):
            return b""
        if isinstance(response, bytes | CloseConnection):
            return response
        version = header.api_version
        return b"".join(encode_response(name, version, header.correlation_id, response))

    def _answer(self, name: str) -> Answer:
        scripted = self._answers[name]
        if scripted:
            return scripted.pop(0) if len(scripted) > 1 else scripted[0]
        if name == "api_versions":
            return self.api_versions
        if name == "metadata":
            return self.metadata
        raise AssertionError(f"nothing scripted for {name}")

    def api_versions(self, shape: Shape, request: Any) -> Any:
        versions = [
            shape("ApiVersion", api_key=API_KEYS[name], min_version=low, max_version=high)
            for name, (low, high) in self.versions.items()
        ]
        return shape(
            "ApiVersionsResponse",
            error_code=ErrorCode.none,
            api_keys=tuple(versions),
            throttle_time=ZERO,
        )

    def metadata(self, shape: Shape, request: Any) -> Any:
        ports = {self.node_id: self.port, **self.brokers}
        names = [*self.topics] if request.topics is None else map(self._name, request.topics)
        return shape(
            "MetadataResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            brokers=tuple(
                shape("MetadataResponseBroker", node_id=node_id, host="127.0.0.1", port=port)
                for node_id, port in ports.items()
            ),
            cluster_id="scripted",
            controller_id=self.node_id,
            topics=tuple(self._topic(shape, name) for name in names),
        )

    def _name(self, wanted: Any) -> str | None:
        if wanted.name is not None:
            return str(wanted.name)
        return next(
            (name for name, each in self.topic_ids.items() if each == wanted.topic_id), None
        )

    def _topic(self, shape: Shape, name: str | None) -> Any:
        if name is None:
            return shape(
                "MetadataResponseTopic",
                error_code=ErrorCode.unknown_topic_id,
                name=None,
                topic_id=None,
                is_internal=False,
                partitions=(),
            )
        known = name in self.topics
        partitions = [
            shape(
                "MetadataResponsePartition",
                error_code=ErrorCode.none,
                partition_index=index,
                leader_id=self.leader_id,
                leader_epoch=0,
                replica_nodes=(self.leader_id,),
                isr_nodes=(self.leader_id,),
            )
            for index in range(self.topics.get(name, 0))
        ]
        return shape(
            "MetadataResponseTopic",
            error_code=ErrorCode.none if known else ErrorCode.unknown_topic_or_partition,
            name=name,
            topic_id=self.topic_ids.get(name) if known else None,
            is_internal=False,
            partitions=tuple(partitions),
        )
