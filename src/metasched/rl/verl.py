"""verl: a data set that chooses the prompts of every batch, and a trainer that reports their advantages to it.

Only this file imports ``verl``. Set the environment variable ``VERL_USE_EXTERNAL_MODULES=metasched.rl.verl``, which
registers the trainer, and give these settings::

    data.custom_cls.path=pkg://metasched.rl.verl data.custom_cls.name=PromptDataset data.dataloader_num_workers=0
    trainer.v1.trainer_mode=metasched +data.metasched.by=level +data.metasched.memory=100

``by`` is the column with the level or family of each prompt. The others are options of ``PromptChooser``.
"""

from typing import Any

import numpy as np

from metasched.errors import ConfigError
from metasched.optional import require
from metasched.rl.prompts import PromptChooser

RLHFDataset: Any = require("verl.utils.dataset.rl_dataset").RLHFDataset
_base: Any = require("verl.trainer.ppo.v1.trainer_base")
PPOTrainerSync: Any = require("verl.trainer.ppo.v1.trainer_sync").PPOTrainerSync


class PromptDataset(RLHFDataset):  # type: ignore[misc]
    """verl's data set. After :meth:`choose`, it returns the rows that the chooser wants, whichever rows are asked for.

    Attributes:
        chooser: the chooser, or None if rows are read as usual, as for validation.
        latest: the prompts of the last batch.
        asked: the prompt of each group that waits, by the ``uid`` that verl gives it.
    """

    chooser: PromptChooser | None = None

    def choose(self) -> None:
        """Choose prompts from now on."""
        options = dict(self.config.get("metasched") or {})
        if "by" not in options:
            raise ConfigError("give data.metasched.by, the column with the level or family of each prompt")
        self.chooser = PromptChooser(self.dataframe, options.pop("by"), **options)
        self.latest: list[int] = []
        self.asked: dict[str, int] = {}

    def __getitems__(self, places: list[int]) -> list[Any]:
        self.latest = list(places) if self.chooser is None else self.chooser.next(len(places)).tolist()
        return [self[prompt] for prompt in self.latest]

    def state_dict(self) -> dict[str, Any]:
        """Return what the data loader stores with a checkpoint.

        Returns:
            The chooser's state and the groups that wait.
        """
        return {} if self.chooser is None else {"chooser": self.chooser.state_dict(), "asked": dict(self.asked)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint.

        Args:
            state: the result of :meth:`state_dict`.
        """
        if self.chooser is not None:
            try:
                chooser, asked = state["chooser"], {uid: int(prompt) for uid, prompt in state["asked"].items()}
            except (TypeError, KeyError, ValueError, AttributeError):
                raise ConfigError("the checkpoint has no state of this data set; begin anew") from None
            self.chooser.load_state_dict(chooser)
            self.asked = asked


@_base.register_trainer("metasched")
class PromptTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer with a :class:`PromptDataset`."""

    def __init__(self, config: Any) -> None:
        config.trainer.v1.trainer_mode = "sync"  # verl takes every other name for an asynchronous trainer
        super().__init__(config)

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        if not isinstance(self.train_dataset, PromptDataset) or self.train_dataloader.num_workers:
            raise ConfigError(
                "give data.custom_cls.path=pkg://metasched.rl.verl data.custom_cls.name=PromptDataset "
                "data.dataloader_num_workers=0"
            )
        self.train_dataset.choose()

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        self.train_dataset.asked.update(zip(batch["uid"], self.train_dataset.latest, strict=True))
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        fields = _base.tq.kv_batch_get(batch.keys, batch.partition_id, select_fields=["advantages"])
        values: dict[tuple[str, str], float] = {}  # the last output of each completion, which may have several
        for key, tag, tokens in zip(batch.keys, batch.tags, fields["advantages"].unbind(), strict=True):
            if not tag.get("is_padding", False):
                uid, session, _ = key.rsplit("_", 2)
                values[uid, session] = float(tokens[tokens.abs().argmax()])  # GRPO: the same for all tokens that count
        asked = self.train_dataset.asked
        prompts = [asked[uid] for uid, _ in values]
        self.train_dataset.chooser.observe(prompts, np.array(list(values.values())))
        for uid in {uid for uid, _ in values}:
            del asked[uid]
        metrics.update({f"metasched/{name}": one for name, one in self.train_dataset.chooser.metrics().items()})
        return batch
