"""Whether learner, reward, gradient, network and losses fit the tasks and the machine, before anything is compiled."""

from metasched.learners import gradients, rewards
from metasched.learners.checks import check_losses, check_network, settle_memory
from metasched.learners.config import TrainConfig
from metasched.learners.engine import find_learner
from metasched.learners.joint import check_settings
from metasched.learners.losses import objective_of
from metasched.learners.networks import default_network
from metasched.runs.runner import Own
from metasched.tasks import TaskSet


def settled(
    tasks: TaskSet, learner: str, network: str, config: TrainConfig, own: Own, together: int = 1
) -> TrainConfig:
    """The settings with the gradient chosen where it is left to us; what cannot run is refused.

    ``together`` runs are to go side by side, and must fit.
    """
    find_learner(learner)
    if learner == "joint":
        check_settings(config)
    rewards.find(own.reward or config.reward)
    if config.gradient != "auto":
        gradients.find(own.gradient or config.gradient)
    built = default_network(tasks, own.network or network, config.heads == "shared")
    check_network(tasks, built, config)
    check_losses(tasks, objective_of(tasks, built, config, own.losses).losses)
    chosen = settle_memory(tasks, built, config, estimator=own.gradient)
    settle_memory(tasks, built, chosen, together, own.gradient)
    return chosen
