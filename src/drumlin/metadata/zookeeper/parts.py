"""What the parts of one ZooKeeper store share; owns no rule."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drumlin.metadata.mutations import Listeners, Locks

if TYPE_CHECKING:
    from drumlin.metadata.image import ClusterImage
    from drumlin.metadata.zookeeper.commits import Commits
    from drumlin.metadata.zookeeper.deletions import Deletions
    from drumlin.metadata.zookeeper.office import Office

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Parts:
    """One of each."""

    image: ClusterImage
    commits: Commits
    office: Office
    deletions: Deletions
    locks: Locks = field(default_factory=Locks)
    listeners: Listeners = field(default_factory=Listeners)
    _problems: set[str] = field(default_factory=set)

    def say(self, problem: str) -> None:
        """Tell the operator of something in ZooKeeper that is not as it should be: once."""
        if problem not in self._problems:
            self._problems.add(problem)
            _log.error("%s", problem)
