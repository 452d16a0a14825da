"""Atomic replacement of files: a crash leaves either the old ones or the new ones.

Replaces segments by cleaned ones, and a whole log by a copy, fetched anew or in another log dir.
"""
