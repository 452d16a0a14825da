"""The calls of a `Client` that administer groups: what they are, where they stand, their end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future

from drumlin.client import arguments
from drumlin.client.admin import group_admin, group_offsets, share_group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata, to_commit
from drumlin.client.admin.group_admin import GroupDescription, GroupListing
from drumlin.client.admin.group_offsets import GroupLag
from drumlin.client.calls import Calls
from drumlin.client.places import Place, check_place
from drumlin.client.topic_partition import AnyPartition, TopicPartition, as_partitions


class GroupCalls(Calls):
    """The calls that administer groups."""

    def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """The groups of the cluster, sorted by name, optionally filtered by state and type.

        Args:
            states: "Stable", "Empty", "PreparingRebalance", ... as brokers name them.
            types: "classic", "consumer", "share" or "streams".

        Returns:
            For each `group` its `state`, `type`, `protocol`, and the id of its `coordinator`.
            Before Kafka 2.6 brokers return no state, before 3.8 no type: it is None then, and
            matches no filter.

        Raises:
            ValueError: no such state, or no such type.
        """
        arguments.some_of("states", states, group_admin.STATES)
        arguments.some_of("types", types, group_admin.TYPES)
        return self._run(group_admin.list_groups(self._connections, states, types))

    def describe_group(self, group: str) -> GroupDescription:
        """State and members of a group of any type; one that does not exist is "Dead".

        Returns:
            `state`, `type`, `is_at_rest`, and `members`: for each its `member_id`, `client_id`,
            `host`, `instance_id` and `partitions`.

        Raises:
            RequestRefused: the broker cannot describe a group of this type.
        """
        arguments.text("group", group)
        return self._run(share_group_admin.describe_group_of_any_kind(self._connections, group))

    def delete_group(self, group: str) -> None:
        """Delete a group, which must have no members, with its offsets.

        Raises:
            RequestRefused: NON_EMPTY_GROUP: it has members; GROUP_ID_NOT_FOUND: it does not exist.
        """
        arguments.text("group", group)
        self._run(group_admin.delete_group(self._connections, group))

    def delete_offsets(self, group: str, partitions: Collection[tuple[str, int]]) -> None:
        """Delete a group's committed offsets for these partitions.

        Raises:
            RequestRefused: GROUP_SUBSCRIBED_TO_TOPIC: a member is subscribed to the topic;
                GROUP_ID_NOT_FOUND: the group does not exist, or is a share group.
        """
        arguments.text("group", group)
        places = as_partitions(partitions)
        deleting = group_admin.delete_offsets(self._connections, group, places)
        self._run(share_group_admin.no_share_group(self._connections, group, deleting))

    def committed_offsets(
        self, group: str, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """All committed offsets of a group.

        Args:
            group: its name.
            require_stable: wait while an open transaction has offsets of the group; otherwise the
                result has the offsets from before that transaction.

        Returns:
            By (topic, partition): `offset`, `metadata` and `leader_epoch`. Empty for a group that
            does not exist.

        Raises:
            RequestRefused: UNSTABLE_OFFSET_COMMIT: the transaction did not end in time.
        """
        arguments.text("group", group)
        return self._run(
            group_admin.fetch_committed(self._connections, group, require_stable=require_stable)
        )

    def commit_offsets(
        self, group: str, offsets: Mapping[AnyPartition, int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets to a group without being a member.

        Raises:
            CommitFailed: the broker refuses them, for example because the group has members, or is
                a share group: `reset_offsets` moves that one.
            TypeError, ValueError: `group`, a partition or an offset is invalid.
        """
        arguments.text("group", group)
        committing = group_admin.commit_all(self._connections, group, to_commit(offsets))
        self._run(share_group_admin.no_share_group(self._connections, group, committing))

    def commit_offsets_async(
        self, group: str, offsets: Mapping[AnyPartition, int | OffsetAndMetadata]
    ) -> Future[None]:
        """Like `commit_offsets`, in the background.

        Returns:
            A future with the outcome: its `result()` raises what `commit_offsets` would.

        Raises:
            ClientError: the client is closed.
            TypeError, ValueError: `group`, a partition or an offset is invalid.
        """
        arguments.text("group", group)
        committing = group_admin.commit_all(self._connections, group, to_commit(offsets))
        return self._thread.submit(
            share_group_admin.no_share_group(self._connections, group, committing)
        )

    def group_lag(self, group: str) -> dict[TopicPartition, GroupLag]:
        """How far a group is behind the ends of its partitions.

        Returns:
            By (topic, partition): `committed_offset`, `end_offset` and `lag`, the offsets in
            between. Partitions for which nothing is committed, or that were deleted, are left out.
            A share group's start offsets count as committed.

        Raises:
            RequestRefused: the broker cannot describe a group of this type.
        """
        arguments.text("group", group)
        return self._run(group_offsets.lag_of(self._connections, group))

    def reset_offsets(
        self,
        group: str,
        to: Place,
        *,
        topics: Collection[str] = (),
        partitions: Collection[tuple[str, int]] | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Have a group continue from another place. It must have no members.

        Args:
            group: its name; one that does not exist is created.
            to: "earliest", "latest", an offset (one outside the log becomes its start or end), or a
                time (an aware datetime, or `Milliseconds`): the first record at or after it, or
                the end.
            topics: topics of which all partitions are reset.
            partitions: (topic, partition) pairs. Without `topics` and `partitions`, all existing
                partitions that the group has committed.
            dry_run: change nothing.

        Returns:
            The new offset, by (topic, partition).

        Raises:
            CommitFailed: the group has members, which would continue from their own positions; or
                a partition was refused: the others are reset.
            UnknownTopic: there is no such topic or partition.
            TypeError, ValueError: an argument is invalid.
        """
        arguments.text("group", group)
        check_place("to", to)
        arguments.no_text("topics", topics)
        places = None if partitions is None else as_partitions(partitions)
        resetting = group_offsets.reset(
            self._connections, group, to, places, topics, dry_run=dry_run
        )
        return self._run(resetting)

    def remove_members(
        self,
        group: str,
        *,
        member_ids: Collection[str] = (),
        instance_ids: Collection[str] = (),
    ) -> None:
        """Have members leave a group; others get their partitions.

        A consumer that still runs joins again, as a new member.

        Args:
            group: its name.
            member_ids: members as `describe_group` names them.
            instance_ids: static members, by their `group_instance_id`.

        Raises:
            RequestRefused: UNKNOWN_MEMBER_ID: there is no such member, the group is a share group,
                or the broker removes no members of its protocol. The others have left.
            TypeError, ValueError: an argument is invalid.
        """
        arguments.text("group", group)
        arguments.no_text("member_ids", member_ids)
        arguments.no_text("instance_ids", instance_ids)
        members = [(each, None) for each in member_ids] + [("", each) for each in instance_ids]
        removing = group_admin.remove_members(self._connections, group, members)
        self._run(share_group_admin.no_share_group(self._connections, group, removing))
