"""What tests of the documents need: tables, environments, commands that are followed."""
