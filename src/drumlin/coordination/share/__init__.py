"""Share groups (KIP-932): delivery to their members, and its state."""
