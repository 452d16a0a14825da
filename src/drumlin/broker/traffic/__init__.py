"""The counts of a broker's traffic: requests and connections by listener, records by topic.

Plain numbers, changed on the event loop only; any thread may read them. They know no format of
metrics, and nothing of what they count.
"""
