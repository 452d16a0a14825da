"""Groups of the consumer protocol (KIP-848): the broker assigns, members follow at their own pace.

`group.py` is one group in memory, changed by records alone. What a request or a deadline leads
to is decided first, as records and an answer (`heartbeats.py`, `departure.py`,
`classic_members.py`); only when they are in the log does the group take them over.
"""
