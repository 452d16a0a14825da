"""Who may do what: sessions, ACLs and their authorizer; quotas and tokens, which are refused."""
