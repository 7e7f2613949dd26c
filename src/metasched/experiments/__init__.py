"""The annexe: research data sets, the experiments of the paper and ours, their tables and published figures.

It imports the library; nothing in the library imports it (:mod:`metasched.plugins` says how they find each other).
"""
