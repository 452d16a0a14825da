"""Commands about who may do what: users, ACLs, certificates."""
