"""Names of the files in a partition's folder, in the exact form in which a broker gives them.

    00000000000000001000.log        20 digits of an offset, and what it is
    00000000000000001000.log.swap   ... and what is being done with it
    leader-epoch-checkpoint         and some others

Whatever is called otherwise is not ours, however much it looks like it (`… (copy).log`, `5.log`):
somebody has put it there, and it is never read, renamed or removed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from drumlin.records.batch.varint import INT64_MAX
from drumlin.storage.directory import partition_metadata
from drumlin.storage.files import folder_marker
from drumlin.storage.files.doomed_files import DELETED_SUFFIX
from drumlin.storage.files.files import TEMPORARY_SUFFIX
from drumlin.storage.log import leader_epochs, swap_plan
from drumlin.storage.log.swap_plan import CLEANED_SUFFIX, SWAP_SUFFIX
from drumlin.storage.producers.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from drumlin.storage.segment.offset_index import OffsetIndex
from drumlin.storage.segment.segment_files import LOG_SUFFIX
from drumlin.storage.segment.time_index import TimeIndex
from drumlin.storage.segment.transaction_index import TransactionIndex

_logger = logging.getLogger(__name__)

INDEX_SUFFIXES: Final = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)
_OTHERS: Final = frozenset(
    {
        leader_epochs.FILE_NAME,
        partition_metadata.FILE_NAME,
        swap_plan.FILE_NAME,
        folder_marker.MARKER,
        folder_marker.LEAVING,
    }
)
_KINDS: Final = "|".join(map(re.escape, (LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX)))
_STATES: Final = "|".join(map(re.escape, (CLEANED_SUFFIX, SWAP_SUFFIX)))
_NUMBERED: Final = re.compile(
    rf"([0-9]{{20}})({_KINDS})({_STATES})?((?:\.[0-9]+)?{re.escape(DELETED_SUFFIX)})?"
)
_TEMPORARY: Final = re.compile(rf"(.+?)(?:\.[0-9]+)?{re.escape(TEMPORARY_SUFFIX)}")
_SAID_MAX: Final = 5


class FileName(NamedTuple):
    """What the name of a file says that has an offset in it.

    `kind` is its suffix; `state` is empty, `.cleaned`, `.swap` or `.deleted`.
    """

    offset: int
    kind: str
    state: str = ""


def parse_file_name(name: str) -> FileName | None:
    """None: it is no file with an offset in its name, or is not ours."""
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return None
    offset, kind, state, deleted = found.groups()
    if int(offset) > INT64_MAX:
        return None
    return FileName(int(offset), kind, DELETED_SUFFIX if deleted else state or "")


def offset_of(name: str, kind: str) -> int | None:
    """The offset in the name of a file of that kind, with which nothing is being done."""
    found = parse_file_name(name)
    return found.offset if found is not None and found[1:] == (kind, "") else None


def is_temporary(name: str) -> bool:
    """Whether it is what one of our files was to be replaced with."""
    found = _TEMPORARY.fullmatch(name)
    return found is not None and _is_whole(found[1])


def say_strangers(path: str, names: Iterable[str]) -> None:
    """Say which files in a partition's folder are not ours, if there are any."""
    strange = sorted(each for each in names if not (_is_whole(each) or is_temporary(each)))
    if strange:
        _logger.warning(
            "%s: left alone, as no broker calls a file like that: %s%s",
            path,
            ", ".join(strange[:_SAID_MAX]),
            f" and {len(strange) - _SAID_MAX} more" if len(strange) > _SAID_MAX else "",
        )


def _is_whole(name: str) -> bool:
    return name in _OTHERS or parse_file_name(name) is not None
