"""A ``Trainer`` that asks a chooser where the rows of each optimiser step come from, and tells it how much they helped.

The rows of a step come from :meth:`ScheduleMixin.get_batch_samples`, when they are wanted and with every reward known.
The loader that ``Trainer`` sees holds no rows; it only counts steps, and so may be skipped, or not, at a resume. All
processes ask choosers of their own, which agree because they are told the same mean reward.
"""

import copy
import math
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, DataLoader
from transformers import Trainer

from metasched.chooser import Chooser, Draw
from metasched.chooser.setup import BATCHINGS
from metasched.errors import ConfigError, RunError, one_of, unknown, whole_number
from metasched.schedulers.base import Scheduler
from metasched.schedulers.resolve import AUTO, family
from metasched.torch.rewards import Alignment, Parameters, Transfer, selected
from metasched.transformers.checkpoints import load, newest, store

_REWARDS = {"transfer": Transfer, "alignment": Alignment}
_TARGET = "the target"
_ROWS, _TARGET_ROWS = 0, 1  # what random numbers are for

_Trainer: Any = object  # in a class of your own, the trainer that comes after the mixin


class ScheduleMixin(_Trainer):  # type: ignore[misc]
    """Choosing, for ``Trainer`` and what is made from it: ``class Mine(ScheduleMixin, SFTTrainer): pass``.

    Args:
        model: as in ``Trainer``.
        args: as in ``Trainer``. A step's draw has ``per_device_train_batch_size`` × ``gradient_accumulation_steps`` ×
            processes rows; an epoch is as many steps as it takes to draw as many rows as the sources have.
        sources: data sets by name; what ``train_dataset`` is elsewhere.
        target: a data set of the rows that the model should get good at. Rewards are measured on it; it is trained on
            only if it is one of the sources, too.
        scheduler: a name of ``ms.schedulers.names()``, or a :class:`~metasched.Scheduler`.
        scheduler_options: of the scheduler and of :class:`~metasched.Chooser`, such as ``{"min_share": 0.05}``.
        reward: ``"transfer"``, ``"alignment"`` (:mod:`metasched.torch`, on the trainer's own loss), or a function of
            the trainer, called when ``.grad`` holds the gradient of the whole step. It returns one number for each row
            that this process trains on (``trainer.draw.tasks[trainer.positions]`` are their sources), or one for all. A
            static scheduler has none.
        batching: ``"mixed"`` or ``"per_source"``, as in :class:`~metasched.Chooser`. ``"auto"``: a step is of one
            source where the reward is a name, which gives one number a step; rows are mixed where it is a function of
            yours or where the scheduler is static.
        target_every: steps for which the target's gradient is kept.
        target_batch_size: target rows that each process reads for it; by default half the rows it trains on in a step,
            and at most a micro-batch.
        reward_parameters: the parameters that count, such as ``["lm_head"]`` or ``["lora_"]``; None for all that learn.
        **others: everything else that ``Trainer`` takes.

    Attributes:
        chooser: its ``history()`` has every draw and reward.
        draw: the draw that is being trained on.
        positions: int64, which of its rows this process trains on, in their order.

    Examples:
        >>> from transformers import Trainer
        >>> from metasched.transformers import ScheduleMixin
        >>> class Mine(ScheduleMixin, Trainer):
        ...     pass
    """

    draw: Draw | None = None
    positions: NDArray[np.int64] | None = None

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *,
        sources: Mapping[str, Any],
        target: Any = None,
        scheduler: str | Scheduler = "thompson",
        scheduler_options: Mapping[str, Any] | None = None,
        reward: str | Callable[[Any], Any] = "transfer",
        batching: str = AUTO,
        target_every: int = 4,
        target_batch_size: int | None = None,
        reward_parameters: Parameters = None,
        **others: Any,
    ) -> None:
        if not sources or not hasattr(sources, "items") or "train_dataset" in others:
            raise ConfigError("give sources={'name': data set, …} in place of train_dataset")
        if not callable(reward) and reward not in _REWARDS:
            raise unknown("reward", reward, _REWARDS)
        one_of("batching", batching, (AUTO, *BATCHINGS))
        if _TARGET in sources:
            raise ConfigError(f"a source is called '{_TARGET}'; give it another name")
        self._reward = reward if _learns(scheduler) else None
        if isinstance(self._reward, str) and target is None:
            raise ConfigError(
                f"reward '{reward}' needs a target; give target=a data set of what the model should learn"
            )
        datasets = dict(sources) if target is None else {**sources, _TARGET: target}
        sizes = _sizes(datasets)
        super().__init__(model, args, train_dataset=_joined(list(datasets.values())), **others)
        if len(self.train_dataset) != sum(sizes.values()):
            raise ConfigError(
                f"preparing made {len(self.train_dataset)} rows of {sum(sizes.values())}, so that nobody knows whose "
                "they are; turn packing and filtering off, or do them beforehand"
            )
        if self.args.auto_find_batch_size or self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise ConfigError("auto_find_batch_size, FSDP and DeepSpeed are not supported; turn them off")
        self._starts = dict(zip(sizes, np.cumsum([0, *sizes.values()])[:-1].tolist(), strict=True))
        self._target_size = sizes.pop(_TARGET, 0)
        self._source_rows = sum(sizes.values())
        self._shape = (self.args.gradient_accumulation_steps, self.args.world_size, self._train_batch_size)
        seed = self.args.data_seed if self.args.data_seed is not None else self.args.seed
        options = dict(scheduler_options or {})
        if "loss_weights" in options or options.get("abstain"):
            raise ConfigError("loss_weights and abstain are for loops of your own; leave them out")
        if batching == AUTO:
            batching = "per_source" if isinstance(self._reward, str) else "mixed"
        self.chooser = Chooser(
            scheduler, sizes, math.prod(self._shape), **{"seed": seed, "batching": batching, **options}
        )
        mine = self._shape[0] * self._shape[2]
        share = max(1, min(mine // 2, self._shape[2])) if target_batch_size is None else target_batch_size
        self._target_batch = whole_number("target_batch_size", share, least=1)
        self._target_reads = 0
        self._unlogged = 0  # draws
        self._every = whole_number("target_every", target_every, least=1)
        self._parameters = reward_parameters
        selected(self.model, reward_parameters)
        self._gradient_reward: Transfer | None = None  # it keeps the target's gradient; made when one is wanted
        self._seed = int(seed)

    # What Trainer calls

    def get_train_dataloader(self) -> DataLoader:
        """A loader that counts the micro-batches of an epoch and holds nothing; called by ``Trainer``.

        Returns:
            The loader.
        """
        rows = self._shape[1] * self._shape[2]
        steps = math.ceil(self._source_rows / self.chooser.batch_size)
        draws_nothing = torch.Generator()  # without it every pass would draw from the training's random numbers
        return DataLoader(
            range(steps * self.chooser.batch_size), batch_size=rows, collate_fn=len, generator=draws_nothing
        )

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Any:
        """The micro-batches of one optimiser step: one draw, split; called by ``Trainer``.

        Args:
            epoch_iterator: of the loader; not read.
            num_batches: how many.
            device: where to.

        Returns:
            What ``Trainer`` expects of it.
        """
        del epoch_iterator
        self.draw = self.chooser.ask()
        self._unlogged += 1
        mine = np.arange(len(self.draw.rows)).reshape(self._shape)[:, self.args.process_index]
        self.positions = mine.ravel()
        rows = self.draw.rows + np.array([self._starts[name] for name in self.chooser.names])[self.draw.tasks]
        batches = [self._collated(rows[places], _ROWS, self.draw.id, index) for index, places in enumerate(mine)]
        return super().get_batch_samples(iter(batches), num_batches, device)

    def training_step(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """A micro-batch; after the last one of a step its reward is told; called by ``Trainer``.

        Args:
            model: as in ``Trainer``.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.

        Returns:
            The loss.
        """
        loss = super().training_step(model, *args, **kwargs)
        if self.accelerator.sync_gradients:
            self._tell()
        return loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, beside the loss, each source's share of the draws and its mean reward since the last time.

        Args:
            logs: as in ``Trainer``.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.
        """
        if "loss" in logs and self._unlogged:
            logs.update({k: v for k, v in self.chooser.log(last=self._unlogged).items() if not k.startswith("draws/")})
            self._unlogged = 0
        super().log(logs, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; a checkpoint gets the schedule before it counts as whole.

        Args:
            output_dir: as in ``Trainer``.
            _internal_call: as in ``Trainer``.
        """
        super().save_model(output_dir, _internal_call)
        if _internal_call and output_dir is not None:
            self._gradient_reward = None  # as after a resume, because a checkpoint has no gradient in it
            if self.args.should_save:
                store(Path(output_dir), self.chooser.state_dict(), target_reads=self._target_reads)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train; from a checkpoint, go on with the very next draw.

        Args:
            resume_from_checkpoint: as in ``Trainer``: a folder, or True for the newest one.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.

        Returns:
            What ``Trainer.train`` returns.
        """
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(newest(Path(self.args.output_dir)))
        self._unlogged, self._gradient_reward = 0, None
        if resume_from_checkpoint:
            facts, state = load(Path(resume_from_checkpoint))
            self.chooser.load_state_dict(state)
            self._target_reads = int(facts["target_reads"])
        for draw in self.chooser.open():  # of a training that was broken off
            self.chooser.forget(draw)
        return super().train(resume_from_checkpoint or None, *args, **kwargs)

    # The reward of a step

    def _tell(self) -> None:
        """Tell the chooser the rewards of all processes, which makes their choosers agree."""
        draw: Any = self.draw
        rewards = self._measured()
        drawn = zlib.crc32(draw.tasks.tobytes() + draw.rows.tobytes())
        values = torch.tensor([[*rewards, draw.id, drawn]], dtype=torch.float64, device=self.args.device)
        if self.args.world_size > 1:
            values = self.accelerator.gather(values)
        *columns, ids, draws = values.cpu().numpy().T
        if len({*ids}) > 1 or len({*draws}) > 1:
            raise RunError(f"processes train on different draws {ids}; give all the same seed and data")
        rewards = np.sum(columns, axis=1) if draw.mixed else np.mean(columns)
        if np.isfinite(rewards).all():
            self.chooser.tell(draw, rewards)
        elif self.accelerator.scaler is not None:  # the scaler will skip this step and try a smaller scale
            self.chooser.forget(draw)
        else:
            wrong = next(iter(draw.sources[~np.isfinite(np.broadcast_to(rewards, len(draw.rows)))]))
            raise RunError(
                f"step {self.state.global_step + 1}: the reward of rows of '{wrong}' is not finite; its gradient or "
                "the target's is not: look at its rows, or lower the learning rate"
            )

    def _measured(self) -> NDArray[np.float64]:
        """What this process tells: one number for a draw of one source, else one for each row, 0 for rows of others."""
        draw: Any = self.draw
        measured = self._measure()
        if isinstance(measured, torch.Tensor):
            measured = measured.tolist()
        given = np.asarray(measured, np.float64)
        if given.ndim and given.shape != self.positions.shape:  # type: ignore[union-attr]
            raise ConfigError(
                f"the reward has shape {given.shape}; give one number for each of the {len(self.positions)} "  # type: ignore[arg-type]
                "rows that this process trains on, or one for all"
            )
        if not draw.mixed:
            return np.array([given.mean()])
        rewards = np.zeros(len(draw.rows))
        rewards[self.positions] = given
        return rewards

    def _measure(self) -> Any:
        if not isinstance(self._reward, str):
            return 0.0 if self._reward is None else self._reward(self)
        if self._gradient_reward is None:
            self._gradient_reward = _REWARDS[self._reward](self.model, self._target_loss, self._parameters, self._every)
        scaler = self.accelerator.scaler
        return self._gradient_reward(target_batch=_TARGET, scale=1.0 if scaler is None else scaler.get_scale())

    def _target_loss(self, model: Any, rows: Any) -> torch.Tensor:
        """The mean loss of target rows; each process reads others, at random, each time anew."""
        del rows
        processes, rank = self.args.world_size, self.args.process_index
        number = min(self._target_batch * processes, self._target_size)
        random = np.random.default_rng([self._seed, self._target_reads])
        drawn = random.choice(self._target_size, number, replace=False)
        mine = drawn[rank::processes] if len(drawn) >= processes else drawn
        inputs = self._collated(mine + self._starts[_TARGET], _TARGET_ROWS, self._target_reads, 0)
        self._target_reads += 1
        noted = copy.deepcopy(getattr(self, "_metrics", None))  # of TRL's trainers, which note what they compute
        with self.compute_loss_context_manager():
            loss: torch.Tensor = self.compute_loss(model, self._prepare_inputs(inputs))
        if noted is not None:
            self._metrics = noted
        return loss

    def _collated(self, numbers: Any, *stream: int) -> Any:
        """A batch of these rows of the joined data, without the columns that the model does not take."""
        collate = self._get_collator_with_removed_columns(self.data_collator, description="Training")
        with _own_random(self._seed, self.args.process_index, *stream):
            if hasattr(self.train_dataset, "__getitems__"):
                return collate(list(self.train_dataset.__getitems__(numbers.tolist())))
            return collate([self.train_dataset[number] for number in numbers.tolist()])


def _learns(scheduler: str | Scheduler) -> bool:
    """Whether rewards mean anything to it; what ``auto`` chooses follows them."""
    if not isinstance(scheduler, str):
        return scheduler.family == "active"
    return scheduler == AUTO or family(scheduler) == "active"


def _sizes(datasets: Mapping[str, Any]) -> dict[str, int]:
    """Rows of each data set, by name; one that cannot be indexed or is empty is refused."""
    sizes = {}
    for name, dataset in datasets.items():
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ConfigError(f"'{name}' has no length or row numbers; give a data set that has, or use metasched.mix")
        if not len(dataset):
            raise ConfigError(f"'{name}' has no rows; leave it out")
        sizes[name] = len(dataset)
    return sizes


def _joined(datasets: list[Any]) -> Any:
    """All rows end to end: as one of Hugging Face's data sets where all are, which others can then map over."""
    if all(type(one).__module__.startswith("datasets.") for one in datasets):
        from datasets import concatenate_datasets

        return concatenate_datasets(datasets)
    return ConcatDataset(datasets)


@contextmanager
def _own_random(*numbers: int) -> Iterator[None]:
    """Random numbers decided by ``numbers`` alone; the training's own go on afterwards as if nothing had been drawn.

    A collator that masks at random then makes the same batch of the same draw, whenever and however often it is made.
    """
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


class ScheduledTrainer(ScheduleMixin, Trainer):  # type: ignore[misc]
    """:class:`transformers.Trainer` with the arguments of :class:`ScheduleMixin`.

    Examples:
        >>> import torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments
        >>> from metasched.transformers import ScheduledTrainer
        >>> def sentences(first):
        ...     rows = (torch.arange(16).unfold(0, 8, 1) + first) % 32
        ...     return [{"input_ids": row, "labels": row} for row in rows]
        >>> trainer = ScheduledTrainer(
        ...     GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1)),
        ...     TrainingArguments("checkpoints", max_steps=2, report_to="none", disable_tqdm=True, use_cpu=True),
        ...     sources={"up": sentences(0), "elsewhere": sentences(16)},
        ...     target=sentences(4),
        ... )
        >>> _ = trainer.train()  # doctest: +ELLIPSIS
        {...}
        >>> len(trainer.chooser.history()["task"])
        2
    """
