"""The console's HTTP server: addresses, logins, sessions and limits."""
