"""Owners and standbys of a partition's state, and its replicas. Must never affect commits."""
