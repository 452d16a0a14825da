"""Answers about ACLs, users, tokens and quotas, from a broker without security."""
