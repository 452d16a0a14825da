"""The share coordinator: the progress of share groups in partitions (KIP-932)."""
