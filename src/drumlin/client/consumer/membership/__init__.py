"""A member of a group, in either protocol: pure state machines decide, and a driver sends."""
