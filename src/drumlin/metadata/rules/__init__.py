"""The rules of a cluster: which brokers may lead, and where replicas are placed. Pure, and
independent of stores.
"""
