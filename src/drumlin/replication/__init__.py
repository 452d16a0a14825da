"""The state of replicas: leadership, in-sync replicas, high watermark.

Today each partition has one replica, its leader: no follower fetches, and the high watermark
follows the log end offset. Followers belong here, too.
"""
