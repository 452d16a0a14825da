"""Paths and contents of znodes, and the operations that mutations use to write them. Pure."""
