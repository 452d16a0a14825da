"""The state of replicas: leadership, in-sync replicas, high watermark."""
