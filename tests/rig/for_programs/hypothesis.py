"""Comes before hypothesis on the path of programs that tests start, and says that there is none.

kio loads all of hypothesis where it finds it, which takes longer than the rest of a server's start.
Those who run Drumlin do not have it.
"""

raise ImportError("hypothesis is for tests, not for what they start")
