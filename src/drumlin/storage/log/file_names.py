"""Names of the files in a partition's folder, in the exact form that a broker uses.

    00000000000000001000.log        20 digits of an offset, and the kind of file
    00000000000000001000.log.swap   ... and its state
    leader-epoch-checkpoint         and some others without an offset

A file with any other name is not ours, however similar it looks (`… (copy).log`, `5.log`), and
must never be read, renamed or removed.
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
    """The parts of a file name with an offset.

    `kind` is its suffix; `state` is empty, `.cleaned`, `.swap` or `.deleted`.
    """

    offset: int
    kind: str
    state: str = ""


def parse_file_name(name: str) -> FileName | None:
    """The parts of a name; None if it has no offset, or is not ours."""
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return None
    offset, kind, state, deleted = found.groups()
    if int(offset) > INT64_MAX:
        return None
    return FileName(int(offset), kind, DELETED_SUFFIX if deleted else state or "")


def offset_of(name: str, kind: str) -> int | None:
    """The offset in the name of a file of this kind without a state; else None."""
    found = parse_file_name(name)
    return found.offset if found is not None and found[1:] == (kind, "") else None


def is_temporary(name: str) -> bool:
    """Whether the name is that of a temporary file, which should have replaced one of ours."""
    found = _TEMPORARY.fullmatch(name)
    return found is not None and _is_whole(found[1])


def log_foreign_files(path: str, names: Iterable[str]) -> None:
    """Log the files in a partition's folder that are not ours, if there are any."""
    strange = sorted(each for each in names if not (_is_whole(each) or is_temporary(each)))
    if strange:
        _logger.warning(
            "%s contains files with names that no broker uses; they are left alone: %s%s",
            path,
            ", ".join(strange[:_SAID_MAX]),
            f" and {len(strange) - _SAID_MAX} more" if len(strange) > _SAID_MAX else "",
        )


def _is_whole(name: str) -> bool:
    return name in _OTHERS or parse_file_name(name) is not None
