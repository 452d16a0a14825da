"""Tests of tables that follow a topic."""
