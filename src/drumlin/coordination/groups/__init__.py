"""Groups: their members, their committed offsets, and the topic that stores both.

The three kinds of groups (`classic`, `consumer`, `share`) and the committed `offsets` are plain
code that never awaits; `shard` holds the groups of one partition, and `coordinator` has the
asynchronous code. Nothing here depends on sockets, on logs on disk, or on
the protocol's messages.
"""
