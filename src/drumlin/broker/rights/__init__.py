"""What a broker without security says of rights, users, tokens and quotas."""
