"""Share partitions: the records of a partition that the members of a share group acquire.

Plain state machines, whose inputs are fetched records, acknowledgements and the time.
"""
