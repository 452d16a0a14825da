"""The login and endpoint of S3, found as AWS's own tools find them, and the meaning of errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import boto3
from botocore.exceptions import BotoCoreError

from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.target import LandingRefused, StoreUnavailable

#: The default region, which also stands for stores without regions.
_REGION: Final = "us-east-1"
#: Patterns of the error texts of the Rust library under `obstore` and `deltalake`.
_STATUS: Final = re.compile(r"status code\W*(?:\x1b\[\d+m|\W)*([45]\d\d)")
_CODE: Final = re.compile(r"<Code>(\w+)")
_COLOURED: Final = re.compile(r"\x1b\[\d+m")
#: The transient status: too many requests.
_BUSY: Final = 429


class S3Session:
    """A login, which is renewed when it expires, and the endpoint and region of its store."""

    def __init__(self, url: str, account: S3Account) -> None:
        """
        Raises:
            LandingRefused: there is no login.
        """
        try:
            self.session = boto3.Session(
                aws_access_key_id=account.access_key_id,
                aws_secret_access_key=account.secret_access_key,
                aws_session_token=account.session_token,
                region_name=account.region,
            )
            self._credentials = self.session.get_credentials()
            if self._credentials is None:
                raise LandingRefused(
                    f"{url}: no credentials of AWS are found: set AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or s3.access.key.id and "
                    "s3.secret.access.key in the file of --properties"
                )
            self.endpoint, self.region = account.endpoint or "", account.region or ""
            if not self.endpoint or not self.region:  # slow, so tasks are given both
                self.region = self.session.region_name or _REGION
                client = self.session.client(
                    "s3", region_name=self.region, endpoint_url=account.endpoint
                )
                self.endpoint = str(client.meta.endpoint_url)
        except BotoCoreError as error:
            raise LandingRefused(f"{url}: {error}") from None

    @property
    def is_plain_http(self) -> bool:
        """Whether the endpoint has no TLS."""
        return self.endpoint.startswith("http:")

    def for_delta(self) -> dict[str, str]:
        """The current storage options for `deltalake`, which does not read profiles."""
        login = self._credentials.get_frozen_credentials()
        told = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": login.access_key,
            "AWS_SECRET_ACCESS_KEY": login.secret_key,
            "AWS_SESSION_TOKEN": login.token,
            "AWS_ALLOW_HTTP": str(self.is_plain_http).lower(),
        }
        return {name: each for name, each in told.items() if each}


def options_for_delta(url: str, account: S3Account) -> Callable[[], dict[str, str]]:
    """
    Raises:
        LandingRefused: there is no login.
    """
    return S3Session(url, account).for_delta


def s3_error(url: str, error: Exception) -> LandingRefused | StoreUnavailable:
    """The landing's error for a failed request to S3."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    told = code[1] if code else ""
    if told == "NoSuchBucket":
        return LandingRefused(f"{url}: there is no such bucket")
    if status is None or status[1].startswith("5") or int(status[1]) == _BUSY:
        words = [_COLOURED.sub("", line).strip(" ↳") for line in text.splitlines()]
        line = ": ".join(word for word in words if word)[:300].partition(": Debug source")[0]
        return StoreUnavailable(f"{url}: S3 cannot be reached: {line}")
    told = told or f"status {status[1]}"
    if status[1] in ("401", "403"):
        return LandingRefused(f"{url}: S3 refuses this login, or what it may do: {told}")
    return LandingRefused(f"{url}: S3 refuses the request: {told}")
