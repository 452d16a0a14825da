"""ShareFetch (key 78), versions 1-2: records for a member of a share group (KIP-932).

- A member opens a share session with epoch 0 and ends it with -1: `share_partitions/sessions.py`.
- The member may acknowledge records that it acquired before; the answer waits until that is
  written.
- Acquired records are locked for `acquisition_lock_timeout`; they are sent as slices of the log.
- If there is no room for a session, the request is refused after `max_wait`, not at once.

Version notes: 2 strict limits (KIP-1206) and renewal of locks (KIP-1222), which fetches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import Any, Final, NoReturn

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import Later, waiting
from drumlin.broker.parts.leader_hints import LeaderHints
from drumlin.broker.share_fetch.acknowledgements import (
    Acknowledging,
    Answer,
    Answers,
    acknowledgements,
    begin_to_acknowledge,
)
from drumlin.broker.share_fetch.answers import by_topic, current_leader
from drumlin.broker.share_fetch.fetch import ShareFetch
from drumlin.broker.share_fetch.readable import denying
from drumlin.broker.share_fetch.requests import member_of
from drumlin.broker.share_partitions.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Member,
    SessionPartition,
    ShareSession,
)
from drumlin.coordination.share.delivery.fetched_batches import AcquireMode, Limits
from drumlin.turns import forget, give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_RENEW_FROM: Final = 2


async def handle(
    context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse | Later[ShareFetchResponse]:
    member = member_of(context, request)
    denies = denying(context, member.group_id)
    if request.is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait
    ):
        raise KafkaError(ErrorCode.invalid_request, "a request that renews fetches nothing")
    mode = _acquire_mode(request)
    said = await acknowledgements(request.topics)
    named = await _named(request.topics, lambda each: each.partition_index)
    forgotten = await _named(request.forgotten_topics_data, lambda each: each)
    try:
        session, partitions = await _continue_session(
            context, request, member, named, forgotten, acknowledges=bool(said)
        )
    except KafkaError as error:
        if error.code is ErrorCode.share_session_limit_reached:
            return waiting(_refuse_later(context, error, request.max_wait.total_seconds()))
        raise
    begun = await begin_to_acknowledge(
        context.broker.shares,
        member,
        said,
        denies,
        knows_renew=context.version >= _RENEW_FROM,
        says_renew=request.is_renew_ack,
    )
    fetch = ShareFetch(
        context.broker,
        session,
        denies,
        [] if request.is_renew_ack else partitions,
        Limits(request.max_records, max(request.batch_size, 1), mode),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        max_wait_s=context.session.waiting_s(request.max_wait.total_seconds()),
    )
    await forget(named, forgotten, said)
    # Not `request` itself: it is freed in a thread, unless the answer refers to it.
    return waiting(_respond(context, request.share_session_epoch, member, fetch, begun))


async def _named(
    topics: Iterable[Any], index_of: Callable[[Any], int]
) -> dict[SessionPartition, None]:
    """Each partition once, in the order of the request."""
    named: dict[SessionPartition, None] = {}
    for topic in topics:
        await give_way()
        for each in topic.partitions:
            named[SessionPartition(topic.topic_id, index_of(each))] = None
            await give_way()
    return named


def _acquire_mode(request: ShareFetchRequest) -> AcquireMode:
    try:
        return AcquireMode(request.share_acquire_mode)
    except ValueError:
        raise KafkaError(ErrorCode.invalid_request, "no such acquire mode") from None


async def _continue_session(
    context: RequestContext,
    request: ShareFetchRequest,
    member: Member,
    named: Collection[SessionPartition],
    forgotten: Collection[SessionPartition],
    *,
    acknowledges: bool,
) -> tuple[ShareSession, list[SessionPartition]]:
    """The session, and the partitions to fetch; none if the request ends it."""
    shares, epoch = context.broker.shares, request.share_session_epoch
    owner = context.session.owner
    if epoch == FINAL_EPOCH:
        return shares.sessions.get(member, owner), []
    if epoch == INITIAL_EPOCH:
        limit = context.broker.config.group_share_max_share_sessions
        number = id(context.connection)
        session = shares.sessions.open(
            member, owner, named, number, limit, acknowledges=acknowledges
        )
        shares.watch(context.connection)
    else:
        session = await shares.sessions.go_on(member, owner, epoch, named, forgotten)
    return session, session.in_turn(epoch)


async def _refuse_later(context: RequestContext, error: KafkaError, delay_s: float) -> NoReturn:
    await context.broker.shares.hold_back(delay_s)
    raise error


async def _respond(
    context: RequestContext,
    epoch: int,
    member: Member,
    fetch: ShareFetch,
    begun: Acknowledging,
) -> ShareFetchResponse:
    await fetch.run()
    acknowledged = await begun.answers()
    shares = context.broker.shares
    lock_duration_s = shares.settings(member.group_id).delivery().lock_duration_s
    if epoch == FINAL_EPOCH:
        shares.leave(fetch.session)
    named = [*fetch.given, *fetch.errors, *acknowledged]
    if epoch == INITIAL_EPOCH and not fetch.given:
        named += fetch.partitions  # the first answer names all partitions of the session
    hints = LeaderHints(context.broker, context.listener)
    answer = await _told(named, fetch, acknowledged, lock_duration_s, hints)
    await forget(named, fetch.partitions, fetch.errors, acknowledged)
    return answer


async def _told(
    named: list[SessionPartition],
    fetch: ShareFetch,
    acknowledged: Answers,
    lock_duration_s: float,
    hints: LeaderHints,
) -> ShareFetchResponse:
    partitions: dict[SessionPartition, PartitionData] = {}
    for shared in named:
        if shared not in partitions:
            partitions[shared] = _partition(shared, fetch, acknowledged, hints)
        await give_way()
    responses = await by_topic(ShareFetchableTopicResponse, partitions.items())
    await forget(partitions)
    return ShareFetchResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        acquisition_lock_timeout=timedelta(seconds=lock_duration_s),
        responses=responses,
        node_endpoints=tuple(NodeEndpoint(**each._asdict()) for each in hints.addresses()),
    )


def _partition(
    shared: SessionPartition,
    fetch: ShareFetch,
    acknowledged: Answers,
    hints: LeaderHints,
) -> PartitionData:
    given = fetch.given.get(shared)
    refusal = fetch.errors.get(shared, ErrorCode.none)
    code, message = acknowledged.get(shared, Answer())
    return PartitionData(
        partition_index=shared.partition,
        error_code=refusal,
        acknowledge_error_code=code.value,
        acknowledge_error_message=message,
        current_leader=LeaderIdAndEpoch(**current_leader(hints, shared, refusal, code)._asdict()),
        records=b"" if given is None else given.records,
        acquired_records=tuple(
            AcquiredRecords(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_count=each.delivery_count,
            )
            for each in (() if given is None else given.acquired)
        ),
    )
