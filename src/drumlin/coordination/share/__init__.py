"""Share groups (KIP-932): delivery of records to their members, and its state."""
