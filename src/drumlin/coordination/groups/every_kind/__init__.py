"""What groups of all kinds have in common. No kind of group is imported here."""
