"""Keeps topics as tables in external stores: the last value of every key, together with offsets.

Reading resumes from the offsets in the store; the group's committed offsets only show the progress.
"""
