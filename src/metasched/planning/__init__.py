"""What labels are worth, and which task to draw on in each joint state of all tasks."""

from metasched.planning.gittins import gittins_index, largest_remaining_index

__all__ = ["gittins_index", "largest_remaining_index"]
