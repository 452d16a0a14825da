"""Programs on the JVM."""
