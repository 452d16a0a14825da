"""ConsumerGroupHeartbeat: the checks of a request, and the decision on it."""

from __future__ import annotations

from functools import partial

from drumlin.coordination.groups.consumer.assignors import ASSIGNORS
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Member,
    Partitions,
    Progress,
    Subscription,
    contains,
)
from drumlin.coordination.groups.consumer.member_change import (
    MemberChange,
    RegexChange,
    are_regexes_due,
    check_room,
    check_static,
    is_assignment_due,
)
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.every_kind.any_group import Decision
from drumlin.wire.error_codes import ErrorCode, KafkaError


def check_request(group_id: str, request: HeartbeatRequest, configured: tuple[str, ...]) -> None:
    """Check a request independently of the group; `configured` are the names of assignors.

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    needs_id = request.must_have_member_id or request.epoch > JOINING or request.epoch == LEAVING
    if needs_id:
        _check_text("MemberId", request.member_id)
    _check_text("GroupId", group_id)
    _check_text("InstanceId", request.group_instance_id)
    _check_text("RackId", request.rack_id)
    if request.is_joining:
        if request.rebalance_timeout_ms is None:
            raise _invalid("a member that joins must give RebalanceTimeoutMs")
        if request.owned is None or request.owned:
            raise _invalid("a member that joins owns no TopicPartitions, and must say so")
        if request.topics is None and request.regex is None:
            raise _invalid("a member that joins must subscribe to something")
    elif request.epoch == LEAVING_FOR_A_WHILE and request.group_instance_id is None:
        raise _invalid("only a static member can leave for a while: InstanceId is missing")
    elif request.epoch < LEAVING_FOR_A_WHILE:
        raise _invalid(f"MemberEpoch {request.epoch} means nothing")
    if request.assignor is not None:
        _check_assignor(request.assignor, configured)


def _check_assignor(assignor: str, configured: tuple[str, ...]) -> None:
    supported = [name for name in configured if name in ASSIGNORS]
    if assignor not in supported:
        raise KafkaError(
            ErrorCode.unsupported_assignor,
            f"there is no assignor {assignor}, but {', '.join(supported)}",
        )


def _check_text(name: str, text: str | None) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} is empty")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest) -> Decision:
    """Handle the first or a later heartbeat of a member.

    Raises:
        KafkaError: the error for the member.
    """
    quiet = _with_nothing_new(group, request)
    if quiet is not None:
        group.extend_session(quiet)
        assignment = _topic_partitions(quiet.progress) if _wants_all(request) else None
        return Decision((), _answer(group, quiet.member_id, quiet.progress, assignment))
    check_room(group, request.member_id, request.group_instance_id)
    change = MemberChange(group, request.sees)
    member_id = request.member_id or group.context.new_id()
    former, member = _find(change, request, member_id)
    subscription = _updated(member, request)
    has_new_topics = change.subscribe(member, subscription, is_new=former is None)
    regex = change.change_regex(member.subscription.regex, subscription.regex)
    change.look_at_metadata(
        former, subscription, has_changed=has_new_topics or regex is RegexChange.RESOLVED
    )
    updated = Member(member_id, subscription, member.progress)
    assigned = change.assign(updated)
    progress = change.reconcile(
        member,
        subscription,
        assigned,
        request.owned,
        has_new_subscription=has_new_topics or regex is not RegexChange.NONE,
    )
    if member_id in group.members:
        group.extend_session(updated)
    assignment = (
        _topic_partitions(progress) if _wants_all(request) else _news(member.progress, progress)
    )
    return Decision(
        change.records,
        _answer(group, member_id, progress, assignment),
        change.resolve,
        assign=change.assign_later(partial(_follow, request=request)),
    )


def _follow(
    group: ConsumerGroup, answer: HeartbeatAnswer, *, request: HeartbeatRequest
) -> Decision:
    """Continue a heartbeat whose target assignment is complete: reconcile the member.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    member = group.members.get(answer.member_id)
    if member is None or member.epoch != answer.epoch:
        return Decision((), answer)  # a later request has been answered meanwhile
    change = MemberChange(group)
    progress = change.follow(member, request.owned, request.epoch)
    assignment = answer.assignment
    if _wants_all(request) or progress.assigned != member.progress.assigned:
        assignment = _topic_partitions(progress)
    return Decision(change.records, _answer(group, member.member_id, progress, assignment))


def _with_nothing_new(group: ConsumerGroup, request: HeartbeatRequest) -> Member | None:
    """The member if the heartbeat changes nothing (the usual case), else None."""
    member = group.members.get(request.member_id)
    if (
        member is not None
        and member.progress.has_reached(group.target_epoch.epoch)
        and request.epoch == member.progress.epoch
        and group.knows_metadata
        and _is_as_before(member.subscription, request)
        and (
            request.group_instance_id is None
            or group.static_member(request.group_instance_id) is member
        )
        and not are_regexes_due(group)
        and not is_assignment_due(group, group.epoch)
    ):
        return member
    return None


def _is_as_before(had: Subscription, request: HeartbeatRequest) -> bool:
    return (
        had.classic is None
        and (request.topics is None or request.topics == had.topics)
        and (request.regex is None or request.regex == had.regex)
        and request.client_id == had.client_id
        and request.client_host == had.client_host
        and request.group_instance_id in (None, had.group_instance_id)
        and request.rack_id in (None, had.rack_id)
        and request.rebalance_timeout_ms in (None, had.rebalance_timeout_ms)
        and request.assignor in (None, had.assignor)
    )


def _answer(
    group: ConsumerGroup, member_id: str, progress: Progress, assignment: Partitions | None
) -> HeartbeatAnswer:
    interval_ms = group.setting("heartbeat.interval.ms")
    return HeartbeatAnswer(member_id, progress.epoch, interval_ms, assignment)


def _wants_all(request: HeartbeatRequest) -> bool:
    return request.is_joining or request.is_complete


def _news(former: Progress, progress: Progress) -> Partitions | None:
    return None if former.assigned == progress.assigned else _topic_partitions(progress)


def _topic_partitions(progress: Progress) -> Partitions:
    return {topic_id: frozenset(epochs) for topic_id, epochs in progress.assigned.items()}


def _updated(member: Member, request: HeartbeatRequest) -> Subscription:
    had = member.subscription
    if _is_as_before(had, request):
        return had
    return Subscription(
        request.group_instance_id or had.group_instance_id,
        had.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        had.topics if request.topics is None else request.topics,
        had.regex if request.regex is None else request.regex,
        (
            had.rebalance_timeout_ms
            if request.rebalance_timeout_ms is None
            else request.rebalance_timeout_ms
        ),
        had.assignor if request.assignor is None else request.assignor,
        None,
    )


def _find(
    change: MemberChange, request: HeartbeatRequest, member_id: str
) -> tuple[Member | None, Member]:
    """The member before this request (None if it is new) and after the request.

    Raises:
        KafkaError: the client is not a member, or no longer a member.
    """
    group = change.group
    instance_id = request.group_instance_id
    if instance_id is None:
        known = group.members.get(member_id)
        if known is None:
            if not request.is_joining:
                group.member(member_id)
            return None, Member(member_id)
        _check_epoch(known, request)
        return known, known
    former = group.static_member(instance_id)
    if request.is_joining:
        if former is None:
            known = group.members.get(member_id)
            return known, known or Member(member_id)
        if not former.is_classic and former.epoch != LEAVING_FOR_A_WHILE:
            raise KafkaError(
                ErrorCode.unreleased_instance_id,
                f"{instance_id} is still member {former.member_id}",
            )
        return former, change.replace_static(former, member_id)
    former = check_static(group, instance_id, member_id)
    _check_epoch(former, request)
    return former, former


def _check_epoch(member: Member, request: HeartbeatRequest) -> None:
    """Check that a request has the member's epoch (or the previous one, if an answer was lost)."""
    known, epoch = request.epoch, member.epoch
    if known in (JOINING, epoch):
        return
    is_last_answer_lost = (
        known < epoch
        and known == member.progress.previous_epoch
        and request.owned is not None
        and contains(member.progress.assigned, request.owned)
    )
    if not is_last_answer_lost:
        raise KafkaError(
            ErrorCode.fenced_member_epoch,
            f"member {member.member_id} is in epoch {epoch}, not {known}; it must join again",
        )
