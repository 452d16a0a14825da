"""Tests of group coordination: the state machine by scenario and at random, records, the log."""
