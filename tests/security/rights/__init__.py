"""Rights of users, asked of both brokers: of others' ids, of tasks, of transactions."""
