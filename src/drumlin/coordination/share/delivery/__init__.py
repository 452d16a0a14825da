"""Share partitions: the records of a partition that members of a share group have acquired.

Plain state machines; their inputs are fetched records, acknowledgements and the time.
"""
