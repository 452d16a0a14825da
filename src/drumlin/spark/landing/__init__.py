"""Landing: every record of a topic is added once to tables and files outside the log.

Owns what a target must be able to do, one file for each kind of target, and the loop that plans
batches from the position that the target holds. Nothing that is needed for exactness may be kept
anywhere else: no checkpoint, no offsets of a group.
"""
