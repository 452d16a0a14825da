"""Changes of configurations by others: applied to the image and reported.

A change is announced by a sequential node, as by Apache Kafka's tools: below `/config/changes`, or
elsewhere for ACLs and delegation tokens. A change without such a node goes unnoticed. The nodes are
removed after some time, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from drumlin.clock import Clock
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.store.changes import ConfigsChanged
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.session import Session
from drumlin.metadata.zookeeper.states.reading import config_names, read_configs
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.acl_nodes import ACL_CHANGES
from drumlin.metadata.zookeeper.znodes.config_nodes import ANNOUNCED
from drumlin.metadata.zookeeper.znodes.operations import Delete
from drumlin.metadata.zookeeper.znodes.token_nodes import TOKEN_CHANGES
from drumlin.turns import give_way
from drumlin.zookeeper.nodes import UnreadableNode

_TOGETHER: Final = 500
#: A broker does not start if one of these is unreadable.
_NEEDED: Final = (ResourceType.BROKER, ResourceType.ACL)
#: The time for which Kafka keeps these nodes.
_KEPT_MS: Final = 15 * 60 * 1000


class ConfigChanges:
    """Reads changed configurations; called only by the `Follower`."""

    def __init__(
        self, parts: Parts, clock: Clock, interrupt: Callable[[], Awaitable[None]]
    ) -> None:
        """`interrupt` is called between the parts of long operations."""
        self._parts = parts
        self._interrupt = interrupt
        self._clock = clock
        #: The announcements seen, and their times by ZooKeeper's clock.
        self._seen: dict[str, int] = {}
        self._has_acls = bool(parts.config.value("authorizer.class.name"))
        self._has_tokens = bool(parts.config.value("delegation.token.secret.key"))
        #: The parents of announcements that are followed.
        self.folders = (
            layout.CONFIG_CHANGES,
            *(ACL_CHANGES if self._has_acls else ()),
            *([TOKEN_CHANGES] if self._has_tokens else []),
        )

    async def look_at_all(self, *, is_first: bool = False) -> set[str]:
        """Read all configurations; returns the topics whose configuration is unreadable.

        Raises:
            UnusableMetadata: the broker is starting, and a broker's configuration or an ACL is
            unreadable; the ACL may be one that denies access.
        """
        image, run = self._parts.image, self._parts.commits.run
        _, self._seen = await run(_read_changes, self.folders, {})
        names = partial(config_names, has_acls=self._has_acls, has_tokens=self._has_tokens)
        resources = [*dict.fromkeys([*await run(names), *image.all_configured()])]
        unreadable: set[str] = set()
        for start in range(0, len(resources), _TOGETHER):
            some = resources[start : start + _TOGETHER]
            found, problems = await run(read_configs, some)
            unreadable |= self._say_unreadable(some, found, problems, is_first=is_first)
            for resource, configs in found.items():
                if is_first:
                    image.put_configs(resource, configs)
                elif image.configs(resource) != configs:
                    await self._take(resource)
                await give_way()
            if len(resources) > _TOGETHER:
                await self._interrupt()
        return unreadable

    def _say_unreadable(
        self,
        asked: Sequence[Resource],
        found: dict[Resource, dict[str, str]],
        problems: list[str],
        *,
        is_first: bool,
    ) -> set[str]:
        missing = [each for each in asked if each not in found]
        if is_first and any(each.type in _NEEDED for each in missing):
            raise UnusableMetadata("; ".join(problems))
        for problem in problems:
            self._parts.report(f"{problem}; what is known of it stays, a new topic is not served")
        return {each.name for each in missing if each.type is ResourceType.TOPIC}

    async def look(self) -> None:
        """Read the configurations whose changes were announced."""
        run = self._parts.commits.run
        changed, self._seen = await run(_read_changes, self.folders, self._seen)
        expired_ms = self._clock.expiry.now_ms() - _KEPT_MS
        old = [path for path, created_ms in self._seen.items() if created_ms < expired_ms]
        for each in changed:
            if isinstance(each, UnreadableNode):
                self._parts.report(str(each))
            else:
                await self._take(each)
        await run(_remove, old)

    async def _take(self, resource: Resource) -> None:
        async with self._parts.locks.of(resource):
            found, problems = await self._parts.commits.run(read_configs, [resource])
            for problem in problems:
                self._parts.report(f"{problem}; what is known of it stays")
            image = self._parts.image
            if resource not in found or found[resource] == image.configs(resource):
                return
            if resource.type is ResourceType.TOPIC and resource.name not in image.topics:
                return
            image.put_configs(resource, found[resource])
            self._parts.listeners.tell(ConfigsChanged(resource, found[resource]))


def _read_changes(
    session: Session, folders: Sequence[str], seen: Mapping[str, int]
) -> tuple[list[Resource | UnreadableNode], dict[str, int]]:
    """The resources of new announcements, without repetition, and all existing announcements."""
    changed: dict[Resource | UnreadableNode, None] = {}
    names = session.children_of(folders, is_watched=True)
    listed = [
        f"{folder}/{name}"
        for folder, each in zip(folders, names, strict=True)
        for name in sorted(each)
    ]
    now = {path: seen[path] for path in listed if path in seen}
    new = [path for path in listed if path not in seen]
    for path, node in zip(new, session.read(new), strict=True):
        if node is None:
            continue
        now[path] = node.created_ms
        try:
            resources = ANNOUNCED[path.rpartition("/")[0]](path, node.data)
        except UnreadableNode as error:
            changed[error] = None
        else:
            changed |= dict.fromkeys(resources)
    return list(changed), now


def _remove(session: Session, paths: Sequence[str]) -> None:
    session.commit_all(
        [[Delete(path)] for path in paths]
    )  # another broker may have removed some already
