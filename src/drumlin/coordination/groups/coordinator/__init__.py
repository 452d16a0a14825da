"""The group coordinator: finds the group of a request, and carries out the group's decision.

All asynchronous code of groups is in this folder. The rules are not: the groups decide.
"""
