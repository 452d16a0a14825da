"""The messages of the Kafka protocol: one file for each API that is served or requested.

Messages must have no behaviour: the API's handler knows what a field means.
"""
