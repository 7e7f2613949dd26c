"""The paper's experiments: what they are, and what was published about them."""
