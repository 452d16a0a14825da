"""The share coordinator: how far each share group has come in each partition (KIP-932)."""
