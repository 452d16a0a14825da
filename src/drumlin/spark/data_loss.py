"""What happens when records that a query was to read are gone: `failOnDataLoss`.

Records vanish by retention, by DeleteRecords, and with their topic. The default is to fail, as a
query that goes on has a hole in its result for ever; `failOnDataLoss=false` warns and goes on.
"""

from __future__ import annotations

import logging

_logger = logging.getLogger(__name__)


class DataLoss(RuntimeError):
    """Records that the query was to read are not there any more."""


def report_data_loss(what: str, *, fail: bool) -> None:
    """Fail the query, or warn.

    Raises:
        DataLoss: if `fail`.
    """
    if fail:
        raise DataLoss(
            f"{what}. Records may have been removed, by retention or with their topic, before "
            "this query has read them; the option failOnDataLoss=false would go on without them."
        )
    _logger.warning("%s; going on, as failOnDataLoss is false", what)
