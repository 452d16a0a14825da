"""The messages of logical replication as bytes: `pgoutput`, and the frames that carry it. Pure."""
