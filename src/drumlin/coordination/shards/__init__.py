"""The state of a coordinator: a shard for each partition of its topic that this broker leads.

This code loads, appends and applies records, but makes no decisions about groups, transactions or
share state.
"""
