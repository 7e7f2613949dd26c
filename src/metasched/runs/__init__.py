"""Runs: folders, checkpoints, and the functions that fill them."""
