"""Commands for users, ACLs and certificates."""
