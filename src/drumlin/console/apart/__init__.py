"""What looks into records for filters and schemas: in a process of its own.

Values and schemas come from anyone. Whatever they cost there, the console goes on: that process
has limits of time and memory, and another one follows it.
"""
