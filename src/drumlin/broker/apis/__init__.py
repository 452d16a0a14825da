"""Which APIs, versions and features are served, and what their first use loads."""
