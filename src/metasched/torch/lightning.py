"""Lightning: a callback that knows the draw of each batch, tells its reward, logs, and is part of every checkpoint.

>>> loader = DataLoader(ConcatDataset([web, books]), batch_sampler=sampler)
>>> lightning.Trainer(callbacks=[ScheduleCallback(sampler, reward)]).fit(module, loader)
"""

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from metasched.chooser import Draw
from metasched.errors import ConfigError
from metasched.optional import require
from metasched.torch.sampler import BatchSampler
from metasched.torch.teller import Teller

__all__ = ["ScheduleCallback"]

_Callback: Any = require("lightning", "lightning").Callback


class ScheduleCallback(_Callback):  # type: ignore[misc]
    """Rewards, logs and checkpoints of a :class:`~metasched.torch.BatchSampler` in a ``lightning.Trainer``.

    Give the trainer the ``DataLoader`` with this batch sampler, and ``use_distributed_sampler=False`` if it has several
    devices. The logger gets ``share/<source>`` and ``reward/<source>`` as often as the trainer logs, and
    ``loss/<source>`` if ``training_step`` returns a dict with the ``loss`` and the ``losses`` of the rows. A checkpoint
    contains the states of the sampler and the reward, and a run that loads it continues with the very next batch.

    Args:
        sampler: the sampler that chooses the rows.
        reward: a function, called as ``reward(draw, batch)`` after the backward pass and before the optimiser's step.
            It returns a reward for ``sampler.tell``, or None to forget the draw. Or a
            :class:`~metasched.torch.RowTransfer`, whose ``rows`` your ``training_step`` calls. None for a static
            scheduler.

    Attributes:
        draw: the present draw.

    Examples:
        >>> from metasched.torch import BatchSampler
        >>> from metasched.torch.lightning import ScheduleCallback
        >>> sampler = BatchSampler(ms.Chooser("thompson", {"web": 50, "books": 70}, batch_size=10), batches=4)
        >>> callback = ScheduleCallback(sampler, lambda draw, batch: draw.sources == "web")
    """

    draw: Draw | None = None

    def __init__(self, sampler: BatchSampler, reward: Any = None) -> None:
        if not isinstance(sampler, BatchSampler):
            raise ConfigError(f"the sampler is {type(sampler).__name__}; give a metasched.torch.BatchSampler")
        if reward is not None and not callable(reward) and not hasattr(reward, "watch"):
            raise ConfigError(f"the reward is {reward!r}; give a function of a draw and its batch, or a RowTransfer")
        sampler.whole = True  # Lightning counts the batches of an epoch from its beginning, even after a resume.
        self._sampler, self._reward = sampler, reward
        self._teller, self._watch = Teller(sampler), ExitStack()
        self._told: Any = 0.0  # the rewards for a static scheduler

    # Called by the trainer

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Connect the sampler's processes, which Lightning has now started. Called by the trainer.

        Args:
            trainer: as in Lightning.
            pl_module: as in Lightning.
            stage: as in Lightning.
        """
        if trainer.world_size != self._sampler.processes:
            self._sampler.connect()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse a loader whose batches cannot be matched with draws. Called by the trainer.

        Args:
            trainer: as in Lightning.
            pl_module: as in Lightning.
        """
        if getattr(trainer.train_dataloader, "batch_sampler", None) is not self._sampler:
            raise ConfigError(
                "the trainer's loader has another batch sampler; give fit() the DataLoader with batch_sampler=sampler, "
                "and the Trainer use_distributed_sampler=False"
            )

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Get the draw of the batch. Called by the trainer.

        Args:
            trainer: as in Lightning.
            pl_module: as in Lightning.
            batch: as in Lightning.
            batch_idx: as in Lightning.
        """
        self.draw, self._batch = self._sampler.delivered(), batch
        if hasattr(self._reward, "watch"):
            self._watch.enter_context(self._reward.watch())

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """Measure the reward. Called by the trainer.

        Args:
            trainer: as in Lightning.
            pl_module: as in Lightning.
        """
        if hasattr(self._reward, "watch"):
            self._told = self._reward.rewards()
            self._watch.close()  # What the module does afterwards does not belong to this batch.
        elif self._reward is not None:
            self._told = self._reward(self.draw, self._batch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Tell the reward, and log. Called by the trainer.

        Args:
            trainer: as in Lightning.
            pl_module: as in Lightning.
            outputs: as in Lightning.
            batch: as in Lightning.
            batch_idx: as in Lightning.
        """
        self._watch.close()
        draw: Any = self.draw
        self._teller.tell(draw, self._told, outputs.get("losses") if isinstance(outputs, Mapping) else None)
        if trainer.loggers and (batch_idx + 1) % trainer.log_every_n_steps == 0:
            self._log(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Tell the remaining rewards. Called by the trainer.

        Args:
            trainer: as in Lightning.
            pl_module: as in Lightning.
        """
        self._teller.finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Remove all hooks. Called by the trainer.

        Args:
            trainer: as in Lightning.
            pl_module: as in Lightning.
            exception: as in Lightning.
        """
        self._watch.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the part of a checkpoint for the callback.

        Returns:
            Plain values and tensors.
        """
        if self._sampler.processes > 1:  # a checkpoint has room for the rewards of one process
            self._teller.finish()
        stored = {"sampler": self._sampler.state_dict(), "teller": self._teller.state_dict()}
        if hasattr(self._reward, "state_dict"):
            stored["reward"] = self._reward.state_dict()
        return stored

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue with the very next batch. Called by the trainer.

        Args:
            state_dict: the result of :meth:`state_dict`.
        """
        try:
            parts: list[tuple[Any, Any]] = [
                (self._sampler, state_dict["sampler"]),
                (self._teller, state_dict["teller"]),
            ]
            if hasattr(self._reward, "load_state_dict"):
                parts.append((self._reward, state_dict["reward"]))
        except (TypeError, KeyError):
            raise ConfigError(
                "the checkpoint has no state of this callback and its reward; start a new training"
            ) from None
        for one, stored in parts:
            one.load_state_dict(stored)
        # Lightning warns about every loader without its own state. The state of this one is that of the sampler.
        warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before the epoch ended")

    def _log(self, trainer: Any, module: Any) -> None:
        def gathered(mine: Any) -> Any:
            return module.all_gather(mine).reshape(-1, *mine.shape[1:])

        metrics = self._teller.log(gathered)
        for logger in trainer.loggers:  # Loggers of other processes write nothing.
            logger.log_metrics(metrics, step=trainer.global_step)
