"""`failOnDataLoss`: the reaction when records that a query should read are gone.

Records vanish by retention, by DeleteRecords, and with their topic. The default is to fail, as
the result of a query that continues would have a gap for ever; `failOnDataLoss=false` warns and
continues. Only records that are proven gone count as lost. If a broker is down, stale or slow, the
query waits and then fails, regardless of the option.
"""

from __future__ import annotations

import logging
from typing import Final

_logger = logging.getLogger(__name__)

_REMOVED: Final = (
    "Records may have been removed, by retention or with their topic, before this query has read "
    "them; the option failOnDataLoss=false, which snapshots and changes refuse, would continue "
    "without them."
)

#: The remedy for a topic that was deleted and created again.
RECREATED: Final = (
    "If that was intended, begin with a new checkpoint. Records of the old topic that the query "
    "has not read are gone; the option failOnDataLoss=false, which changes refuse, would continue "
    "with the first record of the new one."
)


class DataLoss(RuntimeError):
    """Records that the query should read are gone."""


class ReadFailed(RuntimeError):
    """Records could not be read, but nothing proves that they are gone."""


def report_data_loss(what: str, *, fail: bool, advice: str = _REMOVED) -> None:
    """Fail the query, or warn.

    Raises:
        DataLoss: if `fail`.
    """
    if fail:
        raise DataLoss(f"{what}. {advice}")
    _logger.warning("%s; continuing, as failOnDataLoss is false", what)
