"""TRL: a ``GRPOTrainer`` that chooses the prompts of every generation by how much their levels teach at present.

>>> trainer = ScheduledGRPOTrainer(model, reward, args, train_dataset=dataset, by="level")
>>> trainer.train()

TRL samples completions in blocks, each for ``steps_per_generation`` × ``num_iterations`` micro-batches. The prompts of
a block are chosen when its completions are needed, so with all rewards so far, and its advantages are told at once. The
loader that ``Trainer`` sees only counts steps. Every process has its own chooser. They agree because they get the
advantages of all processes. Only this file imports ``trl``.
"""

import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from metasched.errors import ConfigError, RunError
from metasched.files import write_whole
from metasched.optional import require
from metasched.rl.prompts import PromptChooser
from metasched.transformers.checkpoint import load, newest, store

__all__ = ["PromptMixin", "ScheduledGRPOTrainer"]
GRPOTrainer: Any = require("trl", "trl").GRPOTrainer
_Trainer: Any = object  # in your own class, the trainer that comes after the mixin


class PromptMixin(_Trainer):  # type: ignore[misc]
    """Adds choosing prompts to ``GRPOTrainer`` and similar trainers: ``class Mine(PromptMixin, RLOOTrainer): pass``.

    Args:
        *args: as in the trainer.
        by: the column of ``train_dataset`` with the level or family of each prompt, or a function of a row.
        chooser_options: options of :class:`~metasched.PromptChooser`, such as ``{"memory": 100}``.
        **others: everything else that the trainer takes.

    Attributes:
        chooser: the :class:`~metasched.PromptChooser`.

    Examples:
        >>> from trl import RLOOTrainer
        >>> from metasched.rl.trl import PromptMixin
        >>> class Mine(PromptMixin, RLOOTrainer):
        ...     pass
    """

    def __init__(
        self,
        *args: Any,
        by: str | Callable[[Any], Any],
        chooser_options: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(*args, **others)
        if not hasattr(self.train_dataset, "__len__") or not hasattr(self.train_dataset, "__getitem__"):
            raise ConfigError("train_dataset has no length or row numbers; give a data set with both")
        options = dict(chooser_options or {})
        if "group_size" in options:
            raise ConfigError("group_size is the trainer's num_generations; leave it out")
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        self.chooser = PromptChooser(
            self.train_dataset, by, group_size=self.num_generations, **{"seed": int(seed), **options}
        )
        self._unlogged = 0  # prompts

    # Called by the trainer

    def _generate_and_score_completions(self, inputs: list[Any]) -> Any:
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        processes, mine = self.args.world_size, self.args.process_index
        total = len(inputs) * processes
        if total % self.num_generations:
            raise ConfigError(
                f"a generation has {total} completions, no multiple of num_generations {self.num_generations}"
            )
        prompts = self.chooser.next(total // self.num_generations)
        self._unlogged += len(prompts)
        indices = prompts.repeat(self.num_generations)
        chosen = indices[mine * len(inputs) : (mine + 1) * len(inputs)].tolist()
        collate = self._get_collator_with_removed_columns(self.data_collator, description="Training")
        output = super()._generate_and_score_completions(collate([dict(self.train_dataset[one]) for one in chosen]))
        self.chooser.observe(indices, self._of_all_processes(output["advantages"], prompts))
        return output

    def _of_all_processes(self, advantages: Any, prompts: Any) -> Any:
        """The advantages of all completions of a generation, from all processes, in the order of its prompts."""
        values = advantages.detach().double()
        if self.args.world_size == 1:
            return values.cpu().numpy()
        drawn = torch.tensor([zlib.crc32(prompts.tobytes())], dtype=torch.float64, device=values.device)
        gathered = self.accelerator.gather(torch.cat([drawn, values])).cpu().numpy().reshape(self.args.world_size, -1)
        if len(np.unique(gathered[:, 0])) > 1:
            raise RunError("processes have chosen different prompts; give all of them the same seed and data")
        return gathered[:, 1:].ravel()

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, with the loss, each level's share of the prompts and its mean reward since the last line.

        Args:
            logs: as in ``Trainer``.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.
        """
        if "loss" in logs and self._unlogged:
            metrics = self.chooser.metrics(last=self._unlogged)
            logs.update({name: value for name, value in metrics.items() if not name.startswith("draws/")})
            self._unlogged = 0
        super().log(logs, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model. A checkpoint also gets the chooser and the present block of completions.

        Args:
            output_dir: as in ``Trainer``.
            _internal_call: as in ``Trainer``.
        """
        super().save_model(output_dir, _internal_call)
        if _internal_call and output_dir is not None:
            folder = Path(output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            if self.args.should_save:
                store(folder, self.chooser.state_dict(), step=self._step)
            if self._step % self._block and self._buffered_inputs is not None:
                _store_block(folder / self._block_file, self._buffered_inputs)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train, or continue from a checkpoint with the very next prompts.

        Args:
            resume_from_checkpoint: as in ``Trainer``: a folder, or True for the newest one.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.

        Returns:
            The result of ``Trainer.train``.
        """
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(newest(Path(self.args.output_dir)))
        self._unlogged = 0
        if resume_from_checkpoint:
            folder = Path(resume_from_checkpoint)
            facts, state = load(folder, "step")
            self.chooser.load_state_dict(state)
            self._step = int(facts["step"])
            if self._step % self._block:
                batches = _load_block(folder / self._block_file, self.args.device)
                if batches and len(batches) != self.args.steps_per_generation:
                    raise RunError(
                        f"{folder / self._block_file}: has steps_per_generation={len(batches)}, but this trainer has "
                        f"{self.args.steps_per_generation}; continue with the settings of the checkpoint"
                    )
                self._buffered_inputs = batches
        self.chooser.forget(self.chooser.waiting())  # of a training that was interrupted
        return super().train(resume_from_checkpoint or None, *args, **kwargs)

    @property
    def _block(self) -> int:
        """For how many micro-batches completions are kept."""
        return int(self.args.steps_per_generation * self.num_iterations)

    @property
    def _block_file(self) -> str:
        return f"completions-{self.args.process_index}.safetensors"


def _store_block(path: Path, batches: list[dict[str, Any]]) -> None:
    """Store the completions that were not yet used for training. Images cannot be stored."""
    arrays = {f"{number}.{name}": one for number, batch in enumerate(batches) for name, one in batch.items()}
    arrays = {name: one for name, one in arrays.items() if one is not None}
    if not all(isinstance(one, torch.Tensor) for one in arrays.values()):
        warnings.warn(
            "this checkpoint is inside a block of completions with images, which cannot be stored; after a "
            "resume, other completions are sampled",
            stacklevel=3,
        )
        return
    write_whole(path, save({name: one.detach().cpu().clone().contiguous() for name, one in arrays.items()}))


def _load_block(path: Path, device: Any) -> list[dict[str, Any]] | None:
    """Load what :func:`_store_block` stored. Without it TRL samples other completions."""
    if not path.is_file():
        return None
    batches: dict[int, dict[str, Any]] = {}
    try:
        with safe_open(path, "pt") as file:
            for key in list(file.keys()):
                number, name = key.split(".", 1)
                batches.setdefault(int(number), {})[name] = file.get_tensor(key).to(device)
    except (OSError, SafetensorError, ValueError):
        raise RunError(f"{path}: is damaged; continue from an older checkpoint") from None
    return [batches[number] for number in sorted(batches)]


class ScheduledGRPOTrainer(PromptMixin, GRPOTrainer):  # type: ignore[misc]
    """:class:`trl.GRPOTrainer` with the arguments of :class:`PromptMixin`.

    Examples:
        >>> from metasched.rl.trl import PromptMixin, ScheduledGRPOTrainer
        >>> issubclass(ScheduledGRPOTrainer, PromptMixin)
        True
    """
