"""Answers of a broker without security about ACLs, users, tokens and quotas."""
