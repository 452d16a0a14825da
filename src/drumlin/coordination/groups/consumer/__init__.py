"""Groups of the consumer protocol (KIP-848): the broker assigns, members follow at their own pace.

`group.py` is one group in memory, changed only by records. A request or a deadline leads to a
decision, which consists of records and an answer (`heartbeats.py`, `departure.py`,
`classic_members.py`). The group applies the records once they are in the log.
"""
