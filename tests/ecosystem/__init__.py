"""Programs of the Kafka ecosystem, unmodified: `script/assure ecosystem`.

Each takes a minute or so, and what it is run with is fetched once into .cache; so no commit runs
them, which is why pytest does not find these files by their names.
"""
