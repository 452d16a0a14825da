"""A folder of a bucket in S3, or in a store with the same interface.

`obstore` sends the requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import obstore
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, S3Store

from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.s3_lake.session import S3Session, s3_error

#: The size of a part; a file has at most 10,000 parts.
_PART_BYTES: Final = 8 << 20
#: The number of parts of a file in flight, and in memory.
_PARTS_SENT: Final = 2
_COPIES_AT_ONCE: Final = 16
#: After these attempts the landing itself retries.
_RETRIES: Final = 4


class Found(NamedTuple):
    """An object in a folder."""

    #: The name, relative to the folder.
    name: str
    size: int
    modified: datetime


class S3Folder:
    """A folder, used by one process."""

    def __init__(self, url: str, account: S3Account) -> None:
        """
        Raises:
            LandingRefused: there are no credentials.
        """
        self.url = url.rstrip("/")
        self._store, self.account = opened(self.url, account)

    def folders(self) -> list[str]:
        """The names of the folders in this one."""
        with self._told():
            return list(obstore.list_with_delimiter(self._store)["common_prefixes"])

    def objects(self, below: str | None = None, *, after: str | None = None) -> Iterator[Found]:
        """The objects of a folder in this one, at any depth.

        Args:
            after: leave out names up to this one.
        """
        with self._told():
            for found in obstore.list(self._store, below, offset=after):
                for each in found:
                    yield Found(each["path"], each["size"], each["last_modified"])

    def read(self, name: str) -> bytes:
        """
        Raises:
            FileNotFoundError: there is no such object.
        """
        with self._told():
            return obstore.get(self._store, name).bytes().to_bytes()

    def write(self, name: str, data: bytes) -> None:
        with self._told():
            obstore.put(self._store, name, data)

    def write_new(self, name: str, data: bytes) -> bool:
        """Create an object, in one step; False if there is one of this name, with other bytes.

        No two callers may write the same bytes.
        """
        with self._told():
            try:
                obstore.put(self._store, name, data, mode="create")
            except AlreadyExistsError:
                # The answer to an earlier attempt may have been lost.
                return self.read(name) == data
            return True

    def create(self, name: str) -> tuple[str, Any]:
        """Create a file, which exists once the stream is closed."""
        return name, _Stream(
            obstore.open_writer(
                self._store, name, buffer_size=_PART_BYTES, max_concurrency=_PARTS_SENT
            )
        )

    def copy(self, names: Mapping[str, str]) -> None:
        """Copy objects inside the store.

        Args:
            names: the names of the originals, by the names of the copies.

        Raises:
            FileNotFoundError: an original is missing.
        """
        with self._told(), ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
            copies = [pool.submit(self._copy, old, new) for new, old in names.items()]
            for each in copies:
                each.result()

    def _copy(self, old: str, new: str) -> None:
        obstore.copy(self._store, old, new)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; missing ones are not an error."""
        if found := list(names):
            with self._told():
                obstore.delete(self._store, found)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """
        Raises:
            LandingRefused, StoreUnavailable: a request has failed, see `s3_error`.
        """
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise s3_error(self.url, error) from None
            raise
        except BaseError as error:
            raise s3_error(self.url, error) from None


class TaskFolder(NamedTuple):
    """A subfolder in which a task creates files."""

    folder: S3Folder
    prefix: str

    def create(self, name: str) -> tuple[str, Any]:
        # Not even a reader that looks for *.parquet at any depth may find it.
        return self.folder.create(f"{self.prefix}/{name.removesuffix('.parquet')}")


def task_folder(url: str, account: S3Account, prefix: str) -> TaskFolder:
    return TaskFolder(S3Folder(url, account), prefix)


class _Stream:
    """A file for Arrow to write: the methods that Arrow calls."""

    def __init__(self, writer: obstore.WritableFile) -> None:
        self._writer, self._position = writer, 0
        self.closed = False

    def write(self, data: Any) -> int:
        written = self._writer.write(data)
        self._position += written
        return written

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: a part is sent when it is full."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._writer.close()


def opened(url: str, account: S3Account) -> tuple[ObjectStore, S3Account]:
    """The store of a folder, and the account with its endpoint and region.

    Raises:
        LandingRefused: there are no credentials.
    """
    parts, session = urlsplit(url), S3Session(url, account)
    store = S3Store(
        parts.netloc,
        prefix=parts.path.strip("/"),
        endpoint=session.endpoint,
        region=session.region,
        client_options={"allow_http": session.is_plain_http},
        retry_config={"max_retries": _RETRIES},
        credential_provider=Boto3CredentialProvider(session.session),
    )
    return store, account._replace(endpoint=session.endpoint, region=session.region)
