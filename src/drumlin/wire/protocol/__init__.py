"""The messages of the Kafka protocol: one file for each API that is served or asked for.

They must have no behaviour: what a field means is the business of the API's handler.
"""
