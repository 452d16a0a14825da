"""The HTTP endpoints of a server of several brokers: one address for metrics, one socket for the
operator.

The paths are those of a single broker (`broker/http/endpoints.py`). Each request is passed to all
brokers, and their answers are merged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.http.admin_socket import bind_admin_socket, remove_admin_socket
from drumlin.broker.http.message import HttpError, Request, Response
from drumlin.broker.http.server import HttpServer, Routes
from drumlin.broker.machine.backup import MachineBackup
from drumlin.broker.machine.greeting import INSPECT, MEASURE
from drumlin.broker.machine.merging import Answer, merged_measures, merged_report, merged_results
from drumlin.broker.metrics.controller import measure_controller
from drumlin.broker.metrics.exposition import CONTENT_TYPE, write_metrics
from drumlin.broker.start.startup import bind_metrics, cannot_listen
from drumlin.metadata.shared.channel import Channel, Unanswered
from drumlin.together import Together
from drumlin.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from drumlin.broker.machine.workers import Worker
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.shared.authority import Authority

_log = logging.getLogger(__name__)

#: What is said for a broker that starts: this server starts it, so to restart all helps nobody.
_HEALTHY: Final = (HTTPStatus.OK, {"is_healthy": True, "failed_log_dirs": []})
_NOT_READY: Final = (
    HTTPStatus.SERVICE_UNAVAILABLE,
    {"is_ready": False, "because": "it is starting or stopping"},
)


class Operator:
    """See the module."""

    def __init__(
        self, config: BrokerConfig, workers: Mapping[int, Worker], authority: Authority
    ) -> None:
        self._config = config
        self._authority = authority
        self._workers = workers
        self._servers: list[HttpServer] = []
        self._directory = Path(config.log_dirs[0])
        #: Whoever asks while a page is made gets the next one, together with all others.
        self._pages = Together[None, Request, bytes](self._make_page)
        #: What everybody may ask.
        self.looking: Routes = {
            "/metrics": {"GET": self._metrics},
            "/health": {"GET": partial(self._are_well, _HEALTHY)},
            "/ready": {"GET": partial(self._are_well, _NOT_READY)},
            "/compaction": {"GET": self._report},
            "/clock": {"GET": self._act},
        }
        self._backup = MachineBackup(list(config.log_dirs), self._ask_all)

    async def start(self) -> None:
        """
        Raises:
            StartFailed: an address is in use, or not one of this machine.
        """
        acting: Routes = {
            "/clock/trust": {"POST": self._act},
            "/compaction/run": {"POST": self._act},
            "/compaction/simulate": {"GET": self._act},
            "/backup/begin": {"POST": self._backup.begin},
            "/backup/end": {"POST": self._backup.end},
        }
        for sock, listener in bind_metrics(self._config).items():
            server = HttpServer(self.looking)
            try:
                await server.start(sock)
            except OSError as error:
                raise cannot_listen(listener, error) from error
            self._servers.append(server)
            _log.info("metrics are on http://%s/metrics", listener.address)
        try:
            sock = bind_admin_socket(self._directory)
        except OSError as error:
            _log.warning("`drumlin compaction` cannot reach this server: no socket: %s", error)
            return
        server = HttpServer({**self.looking, **acting})
        await server.start(sock)
        self._servers.append(server)

    async def stop(self) -> None:
        """Close all servers, and remove the socket."""
        for server in self._servers:
            await server.stop()
        self._servers.clear()
        await self._pages.close()
        remove_admin_socket(self._directory)

    # -- answers -----------------------------------------------------------------------

    async def _metrics(self, request: Request) -> Response:
        return Response(await self._pages.ask(None, request), CONTENT_TYPE)

    async def _make_page(self, _: None, requests: Sequence[Request]) -> list[bytes]:
        """The measures of all brokers that are ready, and of this process, their controller."""
        ready = {
            node_id: worker.channel
            for node_id, worker in self._workers.items()
            if worker.channel is not None
        }
        said = await asyncio.gather(
            *(channel.ask(MEASURE) for channel in ready.values()), return_exceptions=True
        )
        texts = {
            node_id: text
            for node_id, text in zip(ready, said, strict=True)
            if not isinstance(text, BaseException)
        }
        owner = self._authority.controller
        controller = list(measure_controller(owner.elections, owner.queue))

        def page() -> bytes:
            measures = {node_id: json.loads(text) for node_id, text in texts.items()}
            return write_metrics([*merged_measures(measures), *controller])

        return [await asyncio.to_thread(page)] * len(requests)

    async def _are_well(self, of_starting: Answer, request: Request) -> Response:
        """The answers of all brokers, with the status of the worst.

        of_starting: the answer for a broker that starts, for the first time or again.
        """
        body = _encoded(request)

        async def answer(channel: Channel | None) -> Answer:
            try:
                if channel is not None:
                    return _decoded(await channel.ask(INSPECT, body))
            except (Unanswered, KafkaError):
                pass  # it has ended meanwhile, and is started again
            return of_starting

        workers = list(self._workers.items())
        answers = await asyncio.gather(*(answer(each.channel) for _, each in workers))
        status = max((status for status, _ in answers), default=of_starting[0])
        told = {node_id: said for (node_id, _), (_, said) in zip(workers, answers, strict=True)}
        return _response((status, {"brokers": told}))

    async def _report(self, request: Request) -> Response:
        answers = await self._ask_all(request)
        for status, body in answers.values():
            if status != HTTPStatus.OK:
                return _response((status, body))
        return _response(
            (HTTPStatus.OK, merged_report({each: body for each, (_, body) in answers.items()}))
        )

    async def _act(self, request: Request) -> Response:
        return _response(merged_results(await self._ask_all(request)))

    async def _ask_all(self, request: Request) -> dict[int, Answer]:
        channels = {node_id: _channel(worker) for node_id, worker in self._workers.items()}
        body = _encoded(request)
        try:
            said = await asyncio.gather(
                *(channel.ask(INSPECT, body) for channel in channels.values())
            )
        except (Unanswered, KafkaError):
            message = "a broker has ended meanwhile; the log says why"
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, message) from None
        return {node_id: _decoded(each) for node_id, each in zip(channels, said, strict=True)}


def _encoded(request: Request) -> list[Any]:
    return [request.method, request.path, dict(request.query), request.body.decode()]


def _decoded(said: Any) -> Answer:
    status, text = said
    return status, json.loads(text)


def _channel(worker: Worker) -> Channel:
    if worker.channel is None:
        message = f"broker {worker.node_id} is not ready"
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, message)
    return worker.channel


def _response(answer: Answer) -> Response:
    status, body = answer
    return replace(Response.of_json(body), status=HTTPStatus(status))
