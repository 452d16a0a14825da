"""Targets: their interface, a file or more for each kind, and which one a URL names.

Each keeps its position itself, in the commit that adds the rows.
"""
