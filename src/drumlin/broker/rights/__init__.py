"""Who may do what: sessions, ACLs and their authorizer; tokens, which are refused."""
