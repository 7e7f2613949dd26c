"""Research data sets, the experiments of the paper and ours, their tables and published figures.

This annexe imports the library, but nothing in the library imports it. :mod:`metasched.plugins` connects them.
"""
