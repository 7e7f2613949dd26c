"""What labels are worth, and which task to draw from in each joint state of all tasks."""

from metasched.planning.gittins import gittins_index, largest_remaining_index
from metasched.planning.joint import evaluate_policy, solve_joint
from metasched.planning.payoffs import coupled_rewards
from metasched.planning.policy import Policy

__all__ = [
    "Policy",
    "coupled_rewards",
    "evaluate_policy",
    "gittins_index",
    "largest_remaining_index",
    "solve_joint",
]
