"""Whether the tests bite: faults that are put into a copy of the source, one at a time.

`mutants/` has the faults, each with the tests that must notice it and what a user would lose;
`script/assure mutants` runs them, and `results.tsv` keeps what came of it.
"""
