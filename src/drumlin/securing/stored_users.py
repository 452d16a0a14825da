"""Users in the metadata of a broker that does not run: before its first start, or between two.

Each change is one commit, made while the log dirs are locked, so no broker runs on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from drumlin.broker.login.mechanisms.scram import HASHES, ScramCredential
from drumlin.broker.login.users import user
from drumlin.broker.start.machine_locks import Locks
from drumlin.broker.start.startup import StartFailed
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.embedded.database import FILE_NAME, Database, Statement, put_config
from drumlin.metadata.image import ResourceType
from drumlin.metadata.opening import open_embedded
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.peer.security.secret import Secret
from drumlin.securing.private_files import hide
from drumlin.securing.salted_password import salted_password


@contextmanager
def stopped_metadata(config: BrokerConfig) -> Iterator[Database]:
    """The metadata of the broker with this configuration, created if missing. Blocks.

    Raises:
        StartFailed: a broker runs, or the metadata cannot be used.
    """
    log_dirs = [str(Path(each).absolute()) for each in config.log_dirs]
    with Locks({config.node_id: log_dirs}):
        try:
            asyncio.run(_make(config))
        except UnusableMetadata as error:
            raise StartFailed(str(error)) from None
        file = Path(log_dirs[0], FILE_NAME)
        for suffix in ("", "-wal", "-shm"):
            hide(file.with_name(file.name + suffix))  # it has credentials
        with closing(Database(file)) as opened:
            yield opened


async def _make(config: BrokerConfig) -> None:
    await open_embedded(config, are_locked=True).close()


def users_in(opened: Database) -> dict[str, dict[str, int]]:
    """The iterations of each mechanism of each user."""
    image = opened.load("")
    return {
        name: {
            mechanism: ScramCredential.of_text(text).iterations
            for mechanism, text in sorted(image.configs(user(name)).items())
        }
        for name in sorted(image.configured(ResourceType.USER))
    }


def put_user(
    name: str, password: Secret, mechanisms: Collection[str] = (*HASHES,)
) -> list[Statement]:
    """Statements that set a user's password; they do not reveal it."""
    made = credentials(password, mechanisms)
    return [put_config(user(name), mechanism, text) for mechanism, text in made.items()]


def credentials(password: Secret, mechanisms: Collection[str] = (*HASHES,)) -> dict[str, str]:
    """The stored credentials of a password, by mechanism. Slow by design."""
    return {each: _credential(each, password) for each in mechanisms}


def remove_user(name: str, mechanisms: Collection[str]) -> list[Statement]:
    """Statements that remove a user."""
    return [put_config(user(name), mechanism, None) for mechanism in mechanisms]


def _credential(mechanism: str, password: Secret) -> str:
    return ScramCredential.of_salted(mechanism, *salted_password(mechanism, password)).text()
