"""Groups: their members, their committed offsets, and the topic that stores both.

Three kinds of groups (`classic`, `consumer`, `share`) and the committed `offsets` decide and never
await; `shard` holds the groups of one partition, and `coordinator` has the asynchronous code.
Nothing here knows sockets, logs on disk or messages of the protocol.
"""
