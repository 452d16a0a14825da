"""A member of a group, in either protocol: what decides is pure, and beside it what sends."""
