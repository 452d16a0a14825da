"""What can go wrong with a store of offsets that is no broker."""

from __future__ import annotations

from drumlin.client.errors import ClientError


class StoreError(ClientError):
    """A store cannot be used: it is not there, or what is in there is not what we expect."""


class StoreUnavailable(StoreError):
    """A store cannot be reached at the moment; it may be later."""
