"""Code that groups of all kinds share. No kind of group is imported here."""
