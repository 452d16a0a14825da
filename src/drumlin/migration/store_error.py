"""Errors of offset stores other than brokers."""

from __future__ import annotations

from drumlin.client.errors import ClientError


class StoreError(ClientError):
    """A store cannot be used, as it is missing or has unexpected contents."""


class StoreUnavailable(StoreError):
    """A store cannot be reached at the moment; a later attempt may succeed."""
