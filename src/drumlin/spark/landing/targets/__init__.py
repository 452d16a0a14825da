"""Targets: their interface, one or more files for each kind, and the choice by URL.

Each target stores its own position, in the commit that adds the rows.
"""
