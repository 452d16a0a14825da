"""Groups of the consumer protocol (KIP-848): the broker assigns, members follow at their own pace.

`group.py` is one group in memory, changed by records alone. A request or a deadline first makes a
decision, that is records and an answer (`heartbeats.py`, `departure.py`, `classic_members.py`); the
group applies the records only when they are in the log.
"""
