"""The error for a state that cannot be used."""

from __future__ import annotations

from drumlin.client.errors import ClientError


class StateRefused(ClientError):
    """Changelog or committed offsets do not belong to this state. Nothing was changed."""
