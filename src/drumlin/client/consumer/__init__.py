"""The group consumer: Arrow batches for the members of a consumer group."""
