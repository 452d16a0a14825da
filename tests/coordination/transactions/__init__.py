"""Tests of the transaction coordinator: states, scenarios, random requests, records."""
