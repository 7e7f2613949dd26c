"""Models that people would fit without a scheduler: linear models, forests and boosting, on the same rows.

``fit`` turns rows and weights into the parameters of a model. ``recipes`` says which rows and which weights. ``greedy``
chooses sources one after another. ``model`` and ``mean`` are the resulting models, which are used and stored like a
network.
"""
