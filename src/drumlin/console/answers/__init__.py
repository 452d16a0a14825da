"""The console's answers: functions from a session's connections to plain values for JSON.

Each answer has a bounded size. They know neither HTTP nor sessions, and only read.
"""
