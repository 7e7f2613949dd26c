"""Algorithm 1: networks, the inner loop, the outer step, and the loop over meta-updates."""
