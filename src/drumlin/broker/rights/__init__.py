"""Authorization: sessions with their principals, ACLs, the authorizer, and the audit log."""
