"""What each source is worth: how often it was drawn, what its rows did for the target, what is lost without it.

Three things are measured for every source.

- *share*: of the rows that ours drew.
- *transfer*: the mean reward of its rows, over seeds: above 0 where learning them raises the target's score.
- *lost*: how much the score falls when the source alone is left out of a linear model of all sources and the target's
  labelled rows. It takes seconds, and a linear model uses every row, so that a bad source shows.

A source is called harmful only where several of these agree, because such a word makes people throw data away.
"""
