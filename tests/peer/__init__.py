"""Tests of connections to brokers."""
