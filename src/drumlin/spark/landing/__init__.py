"""Landing: every record of a topic is added once to tables and files outside the log.

Contains the target's interface, one file for each kind of target, and the loop that plans batches
from the position stored in the target. Exactness may depend on nothing else: there is no
checkpoint, and committed offsets of a group are never read.
"""
