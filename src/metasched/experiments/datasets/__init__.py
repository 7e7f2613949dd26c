"""The data sets of our experiments: readers of public files, and the task sets made from them."""
