"""Data sets: `load(name, **options)` gives a TaskSet."""
