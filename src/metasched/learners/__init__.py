"""The learners: networks, joint training, Algorithm 1, rewards, evaluation, and the compiled loop over updates."""
