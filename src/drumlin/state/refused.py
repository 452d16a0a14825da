"""The error for a state that cannot be used."""

from __future__ import annotations

from drumlin.client.errors import ClientError


class StateRefused(ClientError):
    """The changelog or the committed offsets do not match the state. Nothing was changed."""
