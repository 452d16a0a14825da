"""Fetch requests: how they continue and wait, without a session and in one."""
