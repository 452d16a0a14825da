"""Delegation tokens in ZooKeeper, as Apache Kafka 3.9 stores and announces them. Pure.

In the image a token is a configuration with a single key, whose value is the node's JSON. The
principals are escaped in the node, but not in the image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.zookeeper.znodes.owner_nodes import escaped
from drumlin.zookeeper.nodes import UnreadableNode, as_text, encode, versioned

TOKENS: Final = "/delegation_token/tokens"
#: The parent of announcements, which contain the token's id.
TOKEN_CHANGES: Final = "/delegation_token/token_changes"  # noqa: S105 - the name of a node
_CHANGE_PREFIX: Final = f"{TOKEN_CHANGES}/token_change_"
#: The nodes that Kafka creates when it starts with tokens.
PERSISTENT: Final = (TOKENS, TOKEN_CHANGES)

#: The only key of a token's configuration.
KEY: Final = "token"
_VERSION: Final = 3
_VERSIONS: Final = (1, 2, 3)
_TIMES: Final = ("issueTimestamp", "maxTimestamp", "expiryTimestamp")
_TIME_MAX: Final = 2**63 - 1


def token_path(resource: Resource) -> str:
    return f"{TOKENS}/{resource.name}"


def token_resource(name: str) -> Resource:
    """The token whose node has this name."""
    return Resource(ResourceType.TOKEN, name)


def encode_token(configs: Mapping[str, str]) -> bytes:
    fields = json.loads(configs[KEY])
    return encode(
        {
            "issueTimestamp": fields["issueTimestamp"],
            "renewers": [escaped(each) for each in fields["renewers"]],
            "tokenRequester": escaped(fields["tokenRequester"]),
            "tokenId": fields["tokenId"],
            "owner": escaped(fields["owner"]),
            "expiryTimestamp": fields["expiryTimestamp"],
            "maxTimestamp": fields["maxTimestamp"],
            "version": _VERSION,
        }
    )


def decode_token(path: str, data: bytes) -> dict[str, str]:
    """The token's configuration.

    Raises:
        UnreadableNode: the content is not a token, or is another token.
    """
    fields = versioned(path, data, _VERSIONS)
    token_id = as_text(path, fields.get("tokenId"), "its id")
    if token_id != path.rpartition("/")[2]:
        raise UnreadableNode(path, f"it is the token {token_id[:40]!r}")
    renewers = fields.get("renewers")
    if not isinstance(renewers, list):
        raise UnreadableNode(path, "its renewers are not a list")
    owner = _principal(path, fields.get("owner"))
    # Before version 3, the requester of a token was always its owner.
    requester = fields.get("tokenRequester")
    token = {
        "version": _VERSION,
        "owner": owner,
        "tokenRequester": owner if requester is None else _principal(path, requester),
        "renewers": [_principal(path, each) for each in renewers],
        **{each: _time(path, fields.get(each)) for each in _TIMES},
        "tokenId": token_id,
    }
    return {KEY: json.dumps(token)}


def _principal(path: str, value: Any) -> str:
    principal = unquote(as_text(path, value, "a principal"))
    if ":" not in principal:
        raise UnreadableNode(path, f"{principal[:40]!r} is no principal")
    return principal


def _time(path: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _TIME_MAX:
        raise UnreadableNode(path, "one of its times is none")
    return value


def encode_token_change(resource: Resource) -> tuple[str, bytes]:
    """An announcement: the prefix of its path, and its content."""
    return _CHANGE_PREFIX, resource.name.encode()


def decode_token_change(path: str, data: bytes) -> list[Resource]:
    """The token that was created, changed or removed."""
    try:
        name = data.decode()
    except UnicodeDecodeError:
        raise UnreadableNode(path, "it is no text") from None
    if not name or "/" in name or name in (".", ".."):
        raise UnreadableNode(path, f"{name[:40]!r} is no token's id")
    return [token_resource(name)]
