"""The HTTP endpoints of a broker.

    drumlin.metrics.listener      GET /metrics, GET /health, GET /ready, GET /compaction,
                                  GET /clock: read-only
    the socket in a log dir       the same, and GET /compaction/simulate, POST /compaction/run,
                                  POST /clock/trust, and POST /backup/check, /backup/begin and
                                  /backup/end

Values that come from files are gathered in a thread.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar

from drumlin.broker.hosting.log_cleaner import Cleaning
from drumlin.broker.hosting.replicas import Replicas
from drumlin.broker.http.admin_socket import bind_admin_socket, remove_admin_socket
from drumlin.broker.http.backup import Backup
from drumlin.broker.http.message import HttpError, Request, Response
from drumlin.broker.http.server import HttpServer, Routes, answer
from drumlin.broker.loop.garbage import making_many
from drumlin.broker.loop.measures import Measure, Metrics, Source
from drumlin.broker.metrics.certificates import begin_to_measure_certificates
from drumlin.broker.metrics.clients import begin_to_measure_clients
from drumlin.broker.metrics.clock import measure_clock
from drumlin.broker.metrics.compaction import measure_compaction
from drumlin.broker.metrics.controller import measure_controller
from drumlin.broker.metrics.exposition import CONTENT_TYPE, write_metrics
from drumlin.broker.metrics.groups import Coordinating, Groups
from drumlin.broker.metrics.logs import begin_to_measure_logs
from drumlin.broker.metrics.process import begin_to_measure_process
from drumlin.broker.metrics.replication import measure_replication
from drumlin.broker.metrics.rooms import Rooms
from drumlin.broker.metrics.traffic import Listening, Serving, begin_to_measure_traffic
from drumlin.broker.metrics.undecided import Undecided
from drumlin.broker.telemetry.client_telemetry import Receiving
from drumlin.compaction.failures import CleaningStopped
from drumlin.compaction.pool.report import describe_result
from drumlin.config.values import Refused, ValueType, parse
from drumlin.peer.security.secret import Secret
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.together import Together
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)
T = TypeVar("T")
_Act = Callable[[PartitionLog], Awaitable[dict[str, Any]]]


class Holding(Listening, Protocol):
    """The server, which knows the memory of requests."""

    #: Whether clients can connect.
    is_accepting: bool

    @property
    def request_memory_bytes(self) -> int: ...

    def certificates(self) -> Mapping[str, Secret]: ...


class Operated(Coordinating, Receiving, Serving, Protocol):
    """The parts of a broker that its operator can inspect or trigger."""

    cleaning: Cleaning
    replicas: Replicas

    @property
    def server(self) -> Holding: ...


class Endpoints:
    """All HTTP endpoints of one broker."""

    def __init__(self, broker: Operated) -> None:
        self._broker = broker
        self.metrics = Metrics()
        self.metrics.add(self._measure_compaction)
        self.metrics.add(lambda: measure_replication(broker, broker.replicas.isr_changes))
        self.metrics.add(Undecided(broker).measure)
        self.metrics.add(lambda: measure_clock(broker.clock))
        self.metrics.add_begun(lambda: begin_to_measure_traffic(broker))
        self.metrics.add_begun(lambda: begin_to_measure_certificates(broker.server.certificates()))
        rooms = Rooms()
        self.metrics.add_begun(lambda: begin_to_measure_logs(broker, rooms))
        groups = Groups(broker)
        self.metrics.add_prepared(groups.prepare, groups.begin)
        self.metrics.add_begun(
            lambda: begin_to_measure_process(broker.node_id, broker.server.request_memory_bytes)
        )
        self.metrics.add_begun(lambda: begin_to_measure_clients(broker))
        metadata = broker.metadata
        self.metrics.add(lambda: measure_controller(metadata.elections, metadata.controller_queue))
        #: Whoever asks while a page is made gets the next one, together with all others.
        self._pages = Together[None, Request, bytes](self._make_page)
        self.backup = Backup(broker)
        self._looking: Routes = {
            "/metrics": {"GET": self._metrics},
            "/health": {"GET": self._health},
            "/ready": {"GET": self._ready},
            "/compaction": {"GET": self._compaction},
            "/clock": {"GET": self._clock},
        }
        self._acting: Routes = {
            "/clock/trust": {"POST": self._trust_clock},
            "/compaction/run": {"POST": self._run},
            "/compaction/simulate": {"GET": self._simulate},
            "/backup/check": {"POST": self.backup.check},
            "/backup/begin": {"POST": self.backup.begin},
            "/backup/end": {"POST": self.backup.end},
        }
        self._servers: list[HttpServer] = []
        self._admin_directory: Path | None = None

    async def serve_metrics(self, sock: socket.socket) -> None:
        """Serve metrics on a bound socket, to everyone.

        Raises:
            OSError: listening on it fails.
        """
        await self._serve(self._looking, sock)

    async def serve_operator(self) -> None:
        """Serve the operator through a socket in the first log dir; a failure is only logged."""
        directory = Path(self._broker.config.log_dirs[0])
        try:
            sock = bind_admin_socket(directory)
        except OSError as error:
            _log.warning("`drumlin compaction` cannot reach this broker: no socket: %s", error)
            return
        self._admin_directory = directory
        await self._serve({**self._looking, **self._acting}, sock)

    async def _serve(self, routes: Routes, sock: socket.socket) -> None:
        server = HttpServer(routes)
        await server.start(sock)
        self._servers.append(server)

    async def answer(self, request: Request) -> Response:
        """This broker's part of an answer from all brokers of the machine to their operator."""
        return await answer({**self._looking, **self._acting}, request)

    async def look_at_measures(self, look: Callable[[Source], T]) -> T:
        """What a thread makes of all current measures."""
        source = await self.metrics.begin()
        return await self._look(lambda: look(source))

    async def stop(self) -> None:
        """Close all servers, and remove the socket."""
        for server in self._servers:
            await server.stop()
        self._servers.clear()
        await self._pages.close()
        if self._admin_directory is not None:
            remove_admin_socket(self._admin_directory)

    # -- looking -----------------------------------------------------------------------

    async def _metrics(self, request: Request) -> Response:
        return Response(await self._pages.ask(None, request), CONTENT_TYPE)

    async def _make_page(self, _: None, requests: Sequence[Request]) -> list[bytes]:
        return [await self.look_at_measures(_page)] * len(requests)

    def _measure_compaction(self) -> Iterable[Measure]:
        broker = self._broker
        log_dirs = [directory.path for directory in broker.logs.directories]
        rows, totals = broker.cleaning.report(), broker.cleaning.totals()
        return measure_compaction(
            totals,
            log_dirs,
            rows,
            broker.clock.wall_ms(),
            lambda topic: broker.traffic.shown_name(topic) == topic,
        )

    async def _health(self, _: Request) -> Response:
        """Whether a restart could help; that the loop answers at all says most of it."""
        failed = [each.path for each in self._broker.logs.directories if not each.is_readable]
        is_healthy = len(failed) < len(self._broker.config.log_dirs)
        said = {"is_healthy": is_healthy, "failed_log_dirs": failed}
        return Response.of_json(said, _ok_if(is_healthy))

    async def _ready(self, _: Request) -> Response:
        """Whether clients should be sent here."""
        broker, because = self._broker, None
        if not broker.server.is_accepting:
            because = "it is starting or stopping"
        elif broker.node_id not in broker.metadata.image.brokers:
            because = "it is not registered as alive in the metadata"
        said = {"is_ready": because is None, "because": because}
        return Response.of_json(said, _ok_if(because is None))

    async def _compaction(self, request: Request) -> Response:
        cleaning = self._broker.cleaning
        topic, partition = request.query.get("topic"), _partition(request.query.get("partition"))
        rows = await self._look(lambda: cleaning.report(topic, partition))
        return Response.of_json(
            {"is_enabled": cleaning.is_enabled, "totals": cleaning.totals(), "partitions": rows}
        )

    async def _clock(self, _: Request) -> Response:
        clock = self._broker.clock
        doubt = clock.expiry.doubt
        told = {
            "wall_ms": clock.wall_ms(),
            "expiry_ms": clock.expiry.now_ms(),
            "is_doubted": doubt is not None,
            "ahead_ms": 0 if doubt is None else doubt.ahead_ms,
            "counts_in_s": 0 if doubt is None else round(doubt.remaining_s),
        }
        return Response.of_json({"results": [told]})

    async def _look(self, function: Callable[[], T]) -> T:
        """Call a function that gathers values in a thread, one at a time."""
        try:
            return await self._broker.threads.looking(function)
        except CleaningStopped as error:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    # -- acting ------------------------------------------------------------------------

    async def _run(self, request: Request) -> Response:
        cleaning, wanted = self._broker.cleaning, request.json()
        if not cleaning.is_enabled:
            raise HttpError(HTTPStatus.CONFLICT, "nothing is cleaned: log.cleaner.enable is false")
        if self._broker.config.log_cleaner_threads == 0:
            raise HttpError(HTTPStatus.CONFLICT, "nothing is cleaned: log.cleaner.threads is 0")
        logs = self._wanted_logs(wanted.get("topic"), wanted.get("partition"))
        act = cleaning.roll_and_run if wanted.get("roll") is True else cleaning.run_now
        return await self._each(act, logs)

    async def _trust_clock(self, request: Request) -> Response:
        self._broker.clock.expiry.trust()
        return await self._clock(request)

    async def _simulate(self, request: Request) -> Response:
        query = request.query
        logs = self._wanted_logs(query.get("topic"), _partition(query.get("partition")))
        return await self._each(self._broker.cleaning.simulate, logs)

    async def _each(self, act: _Act, logs: list[PartitionLog]) -> Response:
        results = []
        for log in logs:
            try:
                results.append(await act(log))
            except CleaningStopped as error:
                raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
            except (OSError, KafkaError) as error:
                results.append(
                    describe_result(log.topic, log.partition, None, str(error), is_failed=True)
                )
        return Response.of_json({"results": results})

    def _wanted_logs(self, topic: object, partition: object) -> list[PartitionLog]:
        if not isinstance(topic, str):
            raise HttpError(HTTPStatus.BAD_REQUEST, "a topic must be named")
        if partition is not None and type(partition) is not int:
            raise HttpError(HTTPStatus.BAD_REQUEST, "a partition is a number")
        if topic not in self._broker.metadata.image.topics:
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is no topic {topic}")
        logs = [
            log
            for log in self._broker.logs
            if log.topic == topic and partition in (None, log.partition)
        ]
        if not logs:
            raise HttpError(HTTPStatus.NOT_FOUND, f"{topic} has no partition {partition} here")
        if not logs[0].config.is_compacted:
            message = f"{topic} is not compacted: compact is not in its cleanup.policy"
            raise HttpError(HTTPStatus.CONFLICT, message)
        return sorted(logs, key=lambda log: log.partition)


def _ok_if(is_well: bool) -> HTTPStatus:
    return HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE


def _page(source: Source) -> bytes:
    with making_many():  # or the garbage collector would stop the loop to examine all samples
        return write_metrics(source())


def _partition(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        number = parse(ValueType.INT, text)
    except Refused:
        raise HttpError(HTTPStatus.BAD_REQUEST, "a partition is a number") from None
    assert isinstance(number, int)
    return number
