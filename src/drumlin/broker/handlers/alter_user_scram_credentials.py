"""AlterUserScramCredentials (key 51), version 0: change the SCRAM credentials of users (KIP-554).

Each user is answered once; the changes of a user are made together, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from drumlin.broker.context import RequestContext
from drumlin.broker.login.users import MECHANISMS, check_change, kept, no_credential, user
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.metadata.image import ClusterImage
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

#: The changes of each user, by mechanism, where None removes a credential; or the first error.
_Changes = dict[str, dict[str, str | None] | KafkaError]


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    results = []
    for name, changes in (await _changes(context.broker.metadata.image, request)).items():
        error = changes if isinstance(changes, KafkaError) else None
        if not context.may_cluster(Operation.ALTER):
            error = denied(Kind.CLUSTER)
        elif not isinstance(changes, KafkaError):
            try:
                alter = context.broker.metadata.alter_configs
                await alter(user(name), partial(_checked, name, changes))
            except KafkaError as refusal:
                error = refusal.with_traceback(None)  # the traceback refers to this frame
        results.append(
            AlterUserScramCredentialsResult(
                user=name,
                error_code=error.code if error else ErrorCode.none,
                error_message=error.message if error else None,
            )
        )
        await give_way()
    return AlterUserScramCredentialsResponse(throttle_time=ZERO, results=tuple(results))


async def _changes(image: ClusterImage, request: AlterUserScramCredentialsRequest) -> _Changes:
    found: _Changes = {}
    for deletion in request.deletions:
        try:
            check_change(deletion.name, deletion.mechanism)
            mechanism = MECHANISMS[deletion.mechanism]
            if mechanism not in image.configs(user(deletion.name)):
                raise no_credential(deletion.name)
            _note(found, deletion.name, mechanism, None)
        except KafkaError as refusal:
            _note_refusal(found, deletion.name, refusal)
        await give_way()
    for each in request.upsertions:
        try:
            _note(found, each.name, *kept(each))
        except KafkaError as refusal:
            _note_refusal(found, each.name, refusal)
        await give_way()
    return found


def _note_refusal(found: _Changes, name: str, refusal: KafkaError) -> None:
    if not isinstance(found.get(name), KafkaError):  # the first error is the answer
        found[name] = refusal.with_traceback(None)  # the traceback refers to another frame


def _note(found: _Changes, name: str, mechanism: str, text: str | None) -> None:
    changes = found.setdefault(name, {})
    if isinstance(changes, KafkaError):
        return
    if mechanism in changes:
        message = "A user credential cannot be altered twice in the same request"
        raise KafkaError(ErrorCode.duplicate_resource, message)
    changes[mechanism] = text


def _checked(
    name: str, changes: Mapping[str, str | None], stored: Mapping[str, str]
) -> Mapping[str, str | None]:
    """The changes, after checking that the credentials to be removed exist."""
    if any(text is None and mechanism not in stored for mechanism, text in changes.items()):
        raise no_credential(name)
    return changes
