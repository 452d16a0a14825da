"""Stores of users: a running cluster, or the metadata of a broker that does not run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from drumlin.cli.reach.cluster import Cluster, check, connect
from drumlin.cli.terminal.output import Failure
from drumlin.peer.peer_error import only
from drumlin.peer.security.secret import Secret
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from drumlin.wire.protocol.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)

#: The numbers of SCRAM mechanisms in requests.
NUMBERS: Final[Mapping[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


class UserStore(Protocol):
    """A store of users with passwords."""

    def users(self) -> dict[str, dict[str, int]]:
        """The iterations of each mechanism of each user."""
        ...

    def put(self, user: str, password: Secret, mechanisms: Collection[str]) -> None:
        """Set the password of a user, who may be new."""
        ...

    def remove(self, user: str, mechanisms: Collection[str]) -> None:
        """Remove a user with these mechanisms."""
        ...


@contextlib.contextmanager
def user_store(
    data: Path | None, bootstrap: str, command_config: Path | None, *, may_be_new: bool = False
) -> Iterator[UserStore]:
    """The users of a cluster, or those in a data directory.

    may_be_new: whether metadata is made in a data directory where no broker has ever run.

    Raises:
        Failure: a broker runs on the directory, or the directory cannot be used.
    """
    if data is None:
        with connect(bootstrap, command_config) as cluster:
            yield _ClusterUsers(cluster)
        return
    from drumlin.broker.start.startup import StartFailed
    from drumlin.config.broker import BrokerConfig
    from drumlin.config.config_error import ConfigError
    from drumlin.securing.private_files import make_private_folder
    from drumlin.securing.stored_users import stopped_metadata

    os.umask(0o077)
    folder = data.absolute()
    _check_metadata(folder, may_be_new=may_be_new)
    try:
        make_private_folder(folder, key="--data")
        with stopped_metadata(BrokerConfig({"log.dirs": str(folder)})) as opened:
            yield _StoredUsers(opened)
    except StartFailed as error:
        raise Failure(f"{error}: without --data, users are those of a running cluster") from None
    except ConfigError as error:
        raise Failure(str(error)) from None


def _check_metadata(folder: Path, *, may_be_new: bool) -> None:
    """
    Raises:
        Failure: there is no metadata of a broker, and none can be made.
    """
    from drumlin.metadata.embedded.database import FILE_NAME
    from drumlin.metadata.opening import IN_ZOOKEEPER
    from drumlin.storage.directory.meta_properties import FILE_NAME as META_PROPERTIES

    if any((folder / each).exists() for each in (FILE_NAME, IN_ZOOKEEPER)):
        return  # opening it tells what is wrong, if anything is
    if (folder / META_PROPERTIES).exists():
        why = f"a broker's {META_PROPERTIES}, but no {FILE_NAME}: start the broker once, or give"
        raise Failure(f"{folder} has {why} the first of its log dirs")
    if not may_be_new:
        why = f"has no {FILE_NAME}: no broker has run there, and there are no users"
        raise Failure(f"{folder} {why}")


class _ClusterUsers:
    """The users of a running cluster, of Drumlin or Apache Kafka."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def users(self) -> dict[str, dict[str, int]]:
        request = DescribeUserScramCredentialsRequest(users=None)
        response = self._cluster.ask_any("describe_user_scram_credentials", request)
        check(response.error_code, "users", response.error_message)
        names = {number: mechanism for mechanism, number in NUMBERS.items()}
        found = {}
        for each in response.results:
            check(each.error_code, f"user {each.user}", each.error_message)
            found[each.user] = {
                names.get(info.mechanism, str(info.mechanism)): info.iterations
                for info in sorted(each.credential_infos, key=lambda info: int(info.mechanism))
            }
        return dict(sorted(found.items()))

    def put(self, user: str, password: Secret, mechanisms: Collection[str]) -> None:
        from drumlin.securing.salted_password import salted_password

        for mechanism in mechanisms:
            salt, salted, iterations = salted_password(mechanism, password)
            upsertion = ScramCredentialUpsertion(
                name=user,
                mechanism=NUMBERS[mechanism],
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
            self._alter(user, deletions=(), upsertions=(upsertion,))

    def remove(self, user: str, mechanisms: Collection[str]) -> None:
        for mechanism in mechanisms:
            deletion = ScramCredentialDeletion(name=user, mechanism=NUMBERS[mechanism])
            self._alter(user, deletions=(deletion,), upsertions=())

    def _alter(self, user: str, **changes: Any) -> None:
        # Apache Kafka accepts one change of a user per request.
        request = AlterUserScramCredentialsRequest(**changes)
        response = self._cluster.ask_controller("alter_user_scram_credentials", request)
        result = only(response.results, f"the change of user {user}")
        message = result.error_message
        if result.error_code == ErrorCode.unsupported_version:
            message = "the cluster keeps no users"
        check(result.error_code, f"user {user}", message)


class _StoredUsers:
    """The users in the metadata of a broker that does not run."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def users(self) -> dict[str, dict[str, int]]:
        from drumlin.securing.stored_users import users_in

        return users_in(self._opened)

    def put(self, user: str, password: Secret, mechanisms: Collection[str]) -> None:
        from drumlin.securing.stored_users import put_user

        self._opened.execute_durably(put_user(user, password, mechanisms))

    def remove(self, user: str, mechanisms: Collection[str]) -> None:
        from drumlin.securing.stored_users import remove_user

        self._opened.execute_durably(remove_user(user, mechanisms))
