"""What people would fit without a scheduler: linear models, forests and boosting, on the same rows.

``fit`` turns rows and weights into the numbers of a model, ``recipes`` says which rows with which weights, ``greedy``
chooses sources one after another, and ``model`` and ``mean`` are what comes out, to be used and stored like a network.
"""
