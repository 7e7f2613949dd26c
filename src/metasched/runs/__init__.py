"""Runs: their folders and checkpoints, and the functions that execute them."""
