"""Reinforcement learning: which prompts the next step is spent on. ``prompts`` needs neither PyTorch nor TRL."""
