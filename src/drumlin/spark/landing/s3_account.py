"""The endpoint, region and credentials of S3 that override AWS's environment and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class S3Account(NamedTuple):
    """Settings of S3. None: the value that AWS's own tools would use."""

    #: The URL of a store with S3's interface.
    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> S3Account:
        """
        Raises:
            ValueError: a name is unknown, or half of a login is missing.
        """
        if unknown := sorted(given.keys() - set(cls._fields)):
            raise ValueError(f"s3: {unknown[0]!r} is unknown: expected {', '.join(cls._fields)}")
        found = cls(**given)
        if (found.access_key_id is None) != (found.secret_access_key is None):
            raise ValueError("s3: access_key_id and secret_access_key belong together")
        region = found.region or os.environ.get("AWS_REGION")
        return found._replace(region=region)

    def __repr__(self) -> str:
        return f"S3Account({self.endpoint!r}, {self.region!r}, …)"
