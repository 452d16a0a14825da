"""The state of a coordinator: a shard for each partition of its topic that is led here.

Loads, appends and applies records, but makes no decisions about groups, transactions or share
state.
"""
