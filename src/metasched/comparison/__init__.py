"""``compare``: which method is best on these tasks, how sure that is, which model is best, and what each source is
worth.
"""
