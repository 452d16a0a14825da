"""Topics: checks before creation, their encoding for Metadata, and the coordinators' internal
topics.
"""
