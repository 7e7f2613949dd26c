"""``compare``: which method is best on these tasks, how sure that is, the best model, and what each source is worth."""
