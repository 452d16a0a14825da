"""The messages of the Kafka protocol: for each API that is served or asked for a file, named as it.

They are facts, and must not have behaviour: what a field means is told by the handler of its API.
"""
