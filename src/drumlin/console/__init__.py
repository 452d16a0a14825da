"""The web console: what a cluster holds and does, as a page in a browser.

A process of its own that is a client of the cluster like any other: it acts with the rights of
whoever looks, keeps nothing on a disk, and asks brokers nothing while nobody looks.
"""
