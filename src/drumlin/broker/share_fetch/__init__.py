"""Delivery to share groups (KIP-932): sessions, and share partitions at work."""
