"""Fetch (key 1), versions 4-18: slices of logs, for consumers.

Records are not copied: a response has slices of segment files, which the connection sends.
`broker/fetching/` reads, waits and answers.

Version notes: 7 sessions (KIP-227); 9 leader epochs (KIP-320); 12 diverging epochs (KIP-595);
13 topic ids; 16 current leaders (KIP-951).
"""

from __future__ import annotations

import asyncio
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.fetch_sessions.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from drumlin.broker.fetching.distinct import distinct, size_of
from drumlin.broker.fetching.fetch import Fetch
from drumlin.broker.fetching.in_session import SessionFetch
from drumlin.broker.fetching.plain import PlainFetch
from drumlin.broker.loop.later import Later, LaterParts, Parts
from drumlin.wire.by_hand.fetch_answer import fetch_answers
from drumlin.wire.by_hand.fetch_request import FetchRequest, read_fetch_request
from drumlin.wire.error_codes import KafkaError, MalformedMessage

_TOPIC_IDS_FROM: Final = 13
#: Larger requests are parsed in a thread, as parsing them takes more than a turn of the loop.
_READ_APART_BYTES: Final = 32 * 1024


def answer(context: RequestContext, frame: memoryview) -> Parts | LaterParts:
    """
    Raises:
        MalformedMessage: the frame is not a Fetch request.
        KafkaError: the session's error.
    """
    if len(frame) > _READ_APART_BYTES:
        return _LargeFetch(context, frame).later
    fetch = _fetch(context, *_read(context, frame))
    return fetch.start() if fetch.may_start() else fetch.later()


def _read(context: RequestContext, frame: memoryview) -> tuple[FetchRequest, tuple[int, int]]:
    header = context.header
    request = distinct(read_fetch_request(header.api_version, frame, header.size))
    return request, size_of(request)


def _fetch(context: RequestContext, request: FetchRequest, size: tuple[int, int]) -> Fetch:
    wanted, forgotten = size
    session_id, epoch = request.session_id, request.session_epoch
    if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        return SessionFetch(context, request, None, wanted + forgotten)
    sessions, owner = context.broker.fetch_sessions, context.session.owner
    if session_id != NO_SESSION:
        sessions.close(session_id, owner)
    if epoch == INITIAL_EPOCH:
        by_id = context.header.api_version >= _TOPIC_IDS_FROM
        session = sessions.create(wanted, owner, by_id=by_id)
        if session is not None:
            return SessionFetch(context, request, session, wanted + forgotten)
    return PlainFetch(context, request, wanted)


class _LargeFetch:
    """A request that is parsed in a thread, so that the loop can serve others meanwhile.

    A parsed request takes many times the memory of its frame, so only a few are parsed at a time.
    """

    def __init__(self, context: RequestContext, frame: memoryview) -> None:
        self._context = context
        self._fetch: Fetch | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(frame))
        self.later: LaterParts = Later(give_up=self._give_up)

    async def _run(self, frame: memoryview) -> None:
        context, broker = self._context, self._context.broker
        parts: Parts | LaterParts
        try:
            async with broker.fetch_sessions.reading_large:
                request, size = await broker.threads.making(_read, context, frame)
                fetch = self._fetch = _fetch(context, request, size)
                later = self.later
                parts = fetch.start(later) if fetch.may_start() else fetch.later(later)
        except MalformedMessage as error:
            self.later.settle(None, error)
        except KafkaError as error:
            header = context.header
            context.errors[error.code] += 1
            answers = fetch_answers(header.api_version)
            self.later.settle(answers.frame(header.correlation_id, 0, [], error=error.code.value))
        except Exception as error:  # noqa: BLE001  the connection handles it
            self.later.settle(None, error)
        else:
            if not isinstance(parts, Later):
                self.later.settle(parts)

    def _give_up(self) -> None:
        self._task.cancel()
        if self._fetch is not None:
            self._fetch.give_up()
