"""Delegation tokens (KIP-48): with a user's token others can log in as the user, for a time.

A token is stored as a configuration in the metadata, in the text form that Apache Kafka keeps in
ZooKeeper. Its HMAC, which is the password, is not stored: brokers compute it from their secret.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.broker.login.mechanisms.scram import (
    HASHES,
    ITERATIONS_MIN,
    ScramCredential,
    TokenLogin,
)
from drumlin.metadata.image import ClusterImage, Resource, ResourceType
from drumlin.peer.security.secret import Secret
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.store.store import MetadataStore

_log = logging.getLogger(__name__)

_KEY: Final = "token"
_VERSION: Final = 3
_HASH: Final = "sha512"
_REMEMBERED_MAX: Final = 1000
USER: Final = "User"
#: Some 4,000 years: later ends would be beyond Python's dates.
_LIFE_MS_MAX: Final = 1 << 47


class DelegationToken(NamedTuple):
    """A token without its password. Principals have their type, as in ACLs; times are in ms."""

    token_id: str
    owner: str
    #: The principal that created the token: the owner, or another who may do so for the owner.
    requester: str
    renewers: tuple[str, ...]
    issued_at_ms: int
    max_at_ms: int
    expires_at_ms: int

    @property
    def resource(self) -> Resource:
        return Resource(ResourceType.TOKEN, self.token_id)

    @property
    def holders(self) -> Sequence[str]:
        """The principals that may renew and end it."""
        return self.owner, *self.renewers

    @property
    def seen_by(self) -> Sequence[str]:
        """The principals that may see it without any right."""
        return self.requester, *self.holders

    def is_over(self, now_ms: int) -> bool:
        return self.expires_at_ms < now_ms or self.max_at_ms < now_ms

    def configs(self) -> Mapping[str, str]:
        """The token as a stored configuration."""
        fields = {
            "version": _VERSION,
            "owner": self.owner,
            "tokenRequester": self.requester,
            "renewers": self.renewers,
            "issueTimestamp": self.issued_at_ms,
            "maxTimestamp": self.max_at_ms,
            "expiryTimestamp": self.expires_at_ms,
            "tokenId": self.token_id,
        }
        return {_KEY: json.dumps(fields)}

    @classmethod
    def of_configs(cls, configs: Mapping[str, str]) -> DelegationToken:
        """
        Raises:
            ValueError: the configuration is not a token.
        """
        try:
            fields = json.loads(configs[_KEY])
            return cls(
                fields["tokenId"],
                fields["owner"],
                fields["tokenRequester"],
                tuple(fields["renewers"]),
                fields["issueTimestamp"],
                fields["maxTimestamp"],
                fields["expiryTimestamp"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a delegation token: {error}") from None


class DelegationTokens:
    """The tokens in a broker's metadata. Without a secret there are none."""

    def __init__(
        self,
        secret: Secret | None,
        max_life_ms: int,
        life_ms: int,
        image: Callable[[], ClusterImage],
    ) -> None:
        """`life_ms`: the lifetime of a token that is not renewed."""
        self._secret = secret
        self._max_life_ms = max_life_ms
        self._life_ms = life_ms
        self._image = image
        self._credential = functools.lru_cache(_REMEMBERED_MAX)(self._made_credential)

    def require_enabled(self) -> None:
        """
        Raises:
            KafkaError: DELEGATION_TOKEN_AUTH_DISABLED.
        """
        if self._secret is None:
            message = "Delegation tokens are not enabled: delegation.token.secret.key is not set"
            raise KafkaError(ErrorCode.delegation_token_auth_disabled, message)

    def password(self, token_id: str) -> bytes:
        """The HMAC of a token; in base64 it is the password of a login."""
        assert self._secret is not None
        return hmac.digest(self._secret.reveal().encode(), token_id.encode(), _HASH)

    def all(self) -> Iterator[DelegationToken]:
        """All tokens, without damaged ones."""
        image = self._image()
        for token_id in image.configured(ResourceType.TOKEN):
            found = self._by_id(image, token_id)
            if found is not None:
                yield found

    def login_of(self, mechanism: str, token_id: str, now_ms: int) -> TokenLogin | None:
        """The data for a login by a token; None if there is no such token, or it has expired."""
        if self._secret is None:
            return None
        token = self._by_id(self._image(), token_id)
        if token is None or token.is_over(now_ms):
            return None
        kind, _, name = token.owner.partition(":")
        if kind != USER:
            return None  # else the login would be that of the user with this name
        end_ms = min(token.expires_at_ms, token.max_at_ms)
        return TokenLogin(self._credential(mechanism, token_id), name, end_ms - now_ms)

    async def with_password(self, password: bytes) -> DelegationToken:
        """
        Raises:
            KafkaError: DELEGATION_TOKEN_NOT_FOUND.
        """
        for token in self.all():
            if hmac.compare_digest(self.password(token.token_id), password):
                return token
            await give_way()
        raise KafkaError(ErrorCode.delegation_token_not_found, "There is no such delegation token.")

    def new(
        self, owner: str, requester: str, renewers: Sequence[str], life_ms: int, now_ms: int
    ) -> DelegationToken:
        """A new token, not stored yet. `life_ms`: its maximum lifetime; 0 or less: the longest
        allowed.
        """
        longest = min(life_ms, self._max_life_ms) if life_ms > 0 else self._max_life_ms
        max_at_ms = now_ms + min(longest, _LIFE_MS_MAX)
        token_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        expires_at_ms = min(max_at_ms, now_ms + self._life_ms)
        return DelegationToken(
            token_id, owner, requester, tuple(renewers), now_ms, max_at_ms, expires_at_ms
        )

    def renewed(
        self, token: DelegationToken, by: str, period_ms: int, now_ms: int
    ) -> DelegationToken:
        """The token with a new expiry time: after the period, or after the usual lifetime if the
        period is negative.

        Raises:
            KafkaError: DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        _require_not_over(token, now_ms)
        _require_holder(token, by)
        life_ms = self._life_ms if period_ms < 0 else min(period_ms, self._life_ms)
        return token._replace(expires_at_ms=min(token.max_at_ms, now_ms + life_ms))

    def _by_id(self, image: ClusterImage, token_id: str) -> DelegationToken | None:
        configs = image.configs(Resource(ResourceType.TOKEN, token_id))
        if not configs:
            return None
        try:
            return DelegationToken.of_configs(configs)
        except ValueError:
            _log.error("the delegation token %r is damaged", token_id)
            return None

    def _made_credential(self, mechanism: str, token_id: str) -> ScramCredential:
        """Compute the credential of a token, which takes a millisecond or two."""
        salt = hmac.digest(self.password(token_id), b"salt", _HASH)[:24]
        password = base64.b64encode(self.password(token_id))
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, ITERATIONS_MIN)
        return ScramCredential.of_salted(mechanism, salt, salted, ITERATIONS_MIN)


def tokens_of(config: BrokerConfig, image: Callable[[], ClusterImage]) -> DelegationTokens:
    """The tokens of a broker with this configuration."""
    secret = config.value("delegation.token.secret.key")
    return DelegationTokens(
        Secret(str(secret)) if secret else None,
        config.delegation_token_max_lifetime_ms,
        config.delegation_token_expiry_time_ms,
        image,
    )


async def remove_over(tokens: DelegationTokens, metadata: MetadataStore, now_ms: int) -> None:
    """Remove expired tokens; those that were renewed meanwhile stay."""

    def alter(stored: Mapping[str, str]) -> Mapping[str, str | None]:
        is_over = bool(stored) and DelegationToken.of_configs(stored).is_over(now_ms)
        return dict.fromkeys(stored) if is_over else {}

    for token in tokens.all():
        if token.is_over(now_ms):
            await metadata.alter_configs(token.resource, alter)
        await give_way()


def ended(token: DelegationToken, by: str, period_ms: int, now_ms: int) -> DelegationToken | None:
    """The token, expiring after the period; None if that is negative: the token is removed at once.

    Raises:
        KafkaError: DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
    """
    _require_holder(token, by)
    if period_ms < 0:
        return None
    _require_not_over(token, now_ms)
    period_ms = min(period_ms, _LIFE_MS_MAX)
    return token._replace(expires_at_ms=min(token.max_at_ms, now_ms + period_ms))


def _require_holder(token: DelegationToken, principal: str) -> None:
    if principal not in token.holders:
        message = "The delegation token belongs to others."
        raise KafkaError(ErrorCode.delegation_token_owner_mismatch, message)


def _require_not_over(token: DelegationToken, now_ms: int) -> None:
    if token.is_over(now_ms):
        raise KafkaError(ErrorCode.delegation_token_expired, "The delegation token has expired.")
