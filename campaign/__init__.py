"""Attacks on what metasched promises about files, kills and inputs: ``python -m campaign`` from the repository's root.

An attack is a function in a file of its own and a line in :mod:`campaign.attacks`; :mod:`campaign.table` counts.
"""
