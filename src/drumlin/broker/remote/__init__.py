"""Requests to other brokers: transaction markers, states of share partitions, high watermarks."""
