"""The state of every coordinator: a shard for each partition of its topic that is led here.

Decides nothing about groups, transactions or shares: it loads, appends and applies records.
"""
