"""Reinforcement learning: which prompts to use in the next step. ``prompts`` needs neither PyTorch nor TRL."""
