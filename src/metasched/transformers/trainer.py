"""A ``Trainer`` that asks a chooser where the rows of each optimiser step come from, and tells it how much they helped.

The rows of a step come from :meth:`ScheduleMixin.get_batch_samples`. They are chosen when they are needed, with all
rewards so far. The loader that ``Trainer`` sees has no rows and only counts steps, so it does not matter whether a
resume skips them. Every process has its own chooser. They agree because they get the same rewards.

Rewards of single rows come from the backward pass of the step (:class:`~metasched.torch.RowTransfer`), at every j-th
step. The draws of the other steps are forgotten. Losses of single rows come from the forward pass.
"""

import copy
import math
import random
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, DataLoader
from transformers import Trainer

from metasched.chooser import Chooser, Draw
from metasched.chooser.setup import BATCHINGS, MIXED, PER_SOURCE
from metasched.chooser.streams import Stream
from metasched.errors import ConfigError, RunError, flag, one_of, unknown, whole_number
from metasched.schedulers.base import Scheduler
from metasched.schedulers.resolve import AUTO, family
from metasched.torch.losses import SourceLosses
from metasched.torch.rewards import IGNORED, Alignment, Parameters, Transfer, selected
from metasched.torch.row_transfer import RowTransfer
from metasched.torch.teller import Teller
from metasched.transformers.checkpoint import load, newest, store
from metasched.transformers.rows import Tokens, losses_of, outputs_of, tokens_of

_REWARDS = {"transfer": Transfer, "alignment": Alignment}
_TARGET = "the target"
_ROWS, _TARGET_ROWS = 0, 1  # what random numbers are for
_UNSUPPORTED = "auto_find_batch_size, FSDP and DeepSpeed are not supported; turn them off and use DDP"

_Trainer: Any = object  # in your own class, the trainer that comes after the mixin


class _Row(NamedTuple):
    """A row that was read from a stream."""

    row: Any


@dataclass
class _Step:
    """A micro-batch in training: the reward that measures it, if any, its rows, and their losses."""

    rewards: RowTransfer | None
    rows: int
    losses: torch.Tensor | None = None


class ScheduleMixin(_Trainer):  # type: ignore[misc]
    """Adds choosing to ``Trainer`` and its subclasses: ``class Mine(ScheduleMixin, SFTTrainer): pass``.

    Args:
        model: as in ``Trainer``.
        args: as in ``Trainer``. A step's draw has ``per_device_train_batch_size`` × ``gradient_accumulation_steps`` ×
            processes rows; an epoch draws as many rows as the sources have.
        sources: data sets by name, in place of ``train_dataset``. A data set without a length or row numbers is read as
            a stream, and again from the start when it ends; in this case give ``max_steps``.
        target: a data set with rows that the model should get good at. Rewards are measured on it. The model trains on
            it only if it is also one of the sources.
        scheduler: a name of ``ms.schedulers.names()``, or a :class:`~metasched.Scheduler`.
        scheduler_options: options of the scheduler and of :class:`~metasched.Chooser`, such as ``{"min_share": 0.05}``.
        reward: ``"transfer"``, a reward for each row if rows are mixed, otherwise one for the step; ``"alignment"``,
            one for the step (:mod:`metasched.torch`, with the trainer's own loss); or a function of the trainer, called
            when ``.grad`` has the gradient of the whole step. It returns one number for each row that this process
            trains on (``trainer.draw.tasks[trainer.positions]`` are their sources), or one for all. A static scheduler
            uses no reward.
        batching: ``"mixed"`` or ``"per_source"``, as in :class:`~metasched.Chooser`. ``"auto"``: rows are mixed, except
            with the reward ``"alignment"``, which is one number for all rows. Then each step uses one source.
        reward_every: how many steps apart the rewards of rows are measured. The draws in between are forgotten.
        target_every: for how many steps the target's gradient is kept. By default 16 for rewards of rows, otherwise 4.
        target_batch_size: the target rows that each process reads for this gradient. By default half the rows that it
            trains on in a step, but at most a micro-batch.
        reward_parameters: the parameters that count, such as ``["lm_head"]`` or ``["lora_"]``. None means all trainable
            ones.
        row_losses: whether ``loss/<source>`` is logged.
        **others: everything else that ``Trainer`` takes.

    Attributes:
        chooser: the chooser. Its ``history()`` has all draws and rewards.
        draw: the present draw.
        positions: int64, the positions of the rows of the draw that this process trains on, in order.

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
        reward_every: int = 8,
        target_every: int | None = None,
        target_batch_size: int | None = None,
        reward_parameters: Parameters = None,
        row_losses: bool = True,
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
        self._streams = {name: Stream(name, one) for name, one in sources.items() if not _numbered(one)}
        sizes = _sizes({name: one for name, one in datasets.items() if name not in self._streams})
        if any(getattr(args, name, None) for name in ("auto_find_batch_size", "fsdp", "deepspeed")):
            raise ConfigError(_UNSUPPORTED)
        _refuse_packing(args, self._streams, hasattr(self, "_prepare_dataset"))
        numbered = [datasets[name] for name in sizes]
        super().__init__(model, args, train_dataset=_joined(numbered) if numbered else [{}], **others)
        if not numbered:
            self.train_dataset: Any = []
        if len(self.train_dataset) != sum(sizes.values()):
            raise ConfigError(
                f"preparation turned {sum(sizes.values())} rows into {len(self.train_dataset)}, so their sources are "
                "unknown; turn off packing and filtering, or do them beforehand"
            )
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:  # a launcher may turn them on, too
            raise ConfigError(_UNSUPPORTED)
        self._starts = dict(zip(sizes, np.cumsum([0, *sizes.values()])[:-1].tolist(), strict=True))
        self._target_size = sizes.pop(_TARGET, 0)
        if self._streams and self.args.max_steps <= 0:
            raise ConfigError(f"source '{next(iter(self._streams))}' is a stream without a length; give max_steps")
        for stream in self._streams.values():
            if self.args.save_strategy != "no" and (obstacle := stream.obstacle()) is not None:
                raise ConfigError(
                    f"source '{stream.name}' cannot be resumed exactly: {obstacle}; or give save_strategy='no'"
                )
        self._source_rows = None if self._streams else sum(sizes.values())
        self._shape = (self.args.gradient_accumulation_steps, self.args.world_size, self._train_batch_size)
        seed = self.args.data_seed if self.args.data_seed is not None else self.args.seed
        options = dict(scheduler_options or {})
        if "loss_weights" in options or options.get("abstain"):
            raise ConfigError("loss_weights and abstain only work in your own loops; leave them out")
        if "batch_size" in options:
            raise ConfigError(
                "the batch size follows from TrainingArguments; leave batch_size out of scheduler_options"
            )
        if batching == AUTO:
            batching = PER_SOURCE if self._reward == "alignment" else MIXED
        rows = {name: sizes.get(name) for name in sources}
        self.chooser = Chooser(
            scheduler, rows, math.prod(self._shape), **{"seed": seed, "batching": batching, **options}
        )
        self._by_row = self._reward == "transfer" and self.chooser.batching == MIXED
        if self._by_row and self.args.n_gpu > 1:
            raise ConfigError("rewards of rows need one process per GPU; start the program with torchrun")
        mine = self._shape[0] * self._shape[2]
        share = max(1, min(mine // 2, self._shape[2])) if target_batch_size is None else target_batch_size
        self._target_batch = whole_number("target_batch_size", share, least=1)
        self._target_reads = 0
        self._unlogged = 0  # draws
        self._losses = SourceLosses() if flag("row_losses", row_losses) else None
        self._reward_every = whole_number("reward_every", reward_every, least=1)
        self._every = (
            (16 if self._by_row else 4) if target_every is None else whole_number("target_every", target_every, 1)
        )
        self._parameters = reward_parameters
        selected(self.model, reward_parameters)
        self._gradient_reward: Any = None  # keeps the target's gradient; made when it is first needed
        self._teller = Teller(_Told(self))
        self._step: _Step | None = None  # during the training of a micro-batch
        self._seed = int(seed)

    # Called by Trainer

    def get_train_dataloader(self) -> DataLoader:
        """Return a loader that counts the micro-batches of an epoch and has no rows. Called by ``Trainer``.

        Returns:
            The loader.
        """
        rows = self._shape[1] * self._shape[2]
        size, rows_of_all = self.chooser.batch_size, self._source_rows
        steps = self.args.max_steps if rows_of_all is None else math.ceil(rows_of_all / size)
        draws_nothing = torch.Generator()  # without it, every pass would draw from the training's random numbers
        return DataLoader(range(steps * size), batch_size=rows, collate_fn=len, generator=draws_nothing)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Any:
        """Return the micro-batches of one optimiser step: one draw, split. Called by ``Trainer``.

        Args:
            epoch_iterator: the iterator of the loader, which is not used.
            num_batches: the number of micro-batches.
            device: the device for the micro-batches.

        Returns:
            The micro-batches, and their number of tokens.
        """
        del epoch_iterator
        self.draw = self.chooser.ask()
        self._unlogged += 1
        mine = np.arange(len(self.draw.rows)).reshape(self._shape)[:, self.args.process_index]
        self.positions = mine.ravel()
        read = self._read_streams(self.draw)
        rows = self.draw.rows + np.array([self._starts.get(name, 0) for name in self.chooser.names])[self.draw.tasks]
        batches = [
            self._collated([read.get(place, rows[place]) for place in places.tolist()], _ROWS, self.draw.id, index)
            for index, places in enumerate(mine)
        ]
        self._rewards_of_rows: list[torch.Tensor] = []
        self._costs: list[torch.Tensor | None] = []
        return super().get_batch_samples(iter(batches), num_batches, device)

    def training_step(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """Train on a micro-batch. After the last one of a step, tell its reward. Called by ``Trainer``.

        Args:
            model: as in ``Trainer``.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.

        Returns:
            The loss.
        """
        draw: Any = self.draw
        measured = self._by_row and draw.id % self._reward_every == 0
        rewards = self._rewards(draw.id) if measured else None
        self._step = _Step(rewards, self._shape[2])
        try:
            with nullcontext() if rewards is None else rewards.watch(True):
                loss = super().training_step(model, *args, **kwargs)
            self._costs.append(self._step.losses)
            if rewards is not None:
                self._rewards_of_rows.append(rewards.rewards())
        finally:
            self._step = None
        if self.accelerator.sync_gradients:
            self._tell()
        return loss

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss of ``Trainer``. In a training step, also store the loss of each row.

        Args:
            model: as in ``Trainer``.
            inputs: as in ``Trainer``.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.

        Returns:
            The result of ``Trainer.compute_loss``.
        """
        step = self._step
        if step is None or (step.rewards is None and self._losses is None):
            return super().compute_loss(model, inputs, *args, **kwargs)
        tokens = tokens_of(inputs, step.rows, getattr(self, "_loss_shifts_labels", True))
        if step.rewards is not None:
            if tokens is None:
                raise ConfigError(
                    "the batch has no labels, so rows cannot have their own rewards; give "
                    "batching='per_source', or a function as the reward"
                )
            scale = self._scale(tokens, kwargs.get("num_items_in_batch"))
            named = {} if tokens.segments is None else {"segments": tokens.segments, "number": tokens.number}
            step.rewards.rows(labels=tokens.labels, scale=scale, **named)
        with outputs_of(model) as outputs:
            result = super().compute_loss(model, inputs, *args, **kwargs)
        if self._losses is not None and tokens is not None and outputs:
            step.losses = losses_of(outputs[0], tokens)
        return result

    def _scale(self, tokens: Tokens, items: Any) -> Any:
        """The factor by which the mean loss of a micro-batch is multiplied before the backward pass."""
        scaler = self.accelerator.scaler
        scale = 1.0 if scaler is None else scaler.get_scale()
        if items is None:
            return scale / self.current_gradient_accumulation_steps
        processes = self.args.world_size if self.args.average_tokens_across_devices else 1
        return scale * processes * (tokens.labels != IGNORED).sum() / items

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log, with the loss, each source's share of the rows and its mean loss since the last line, and its reward.

        Args:
            logs: as in ``Trainer``.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.
        """
        if "loss" in logs and self._unlogged:
            logs.update({k: v for k, v in self.chooser.log(last=self._unlogged).items() if not k.startswith("draws/")})
            self._unlogged = 0
            if self._losses is not None and self.control.should_log:  # all processes are here
                logs.update(self._losses.take(self.chooser.names, self._gathered))
        super().log(logs, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model. A checkpoint gets the schedule before it counts as complete.

        Args:
            output_dir: as in ``Trainer``.
            _internal_call: as in ``Trainer``.
        """
        super().save_model(output_dir, _internal_call)
        if _internal_call and output_dir is not None:
            self._gradient_reward = None  # as after a resume, because a checkpoint does not contain the gradient
            self._teller.finish()
            if self.args.should_save:
                streams = {name: stream.position() for name, stream in self._streams.items()}
                others = {"streams": streams} if streams else {}
                store(Path(output_dir), self.chooser.state_dict(), target_reads=self._target_reads, **others)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train, or continue from a checkpoint with the very next draw.

        Args:
            resume_from_checkpoint: as in ``Trainer``: a folder, or True for the newest one.
            *args: as in ``Trainer``.
            **kwargs: as in ``Trainer``.

        Returns:
            The result of ``Trainer.train``.
        """
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(newest(Path(self.args.output_dir)))
        self._unlogged, self._gradient_reward = 0, None
        self._teller = Teller(_Told(self))
        if resume_from_checkpoint:
            facts, state = load(Path(resume_from_checkpoint), "target_reads")
            self.chooser.load_state_dict(state)
            self._target_reads = int(facts["target_reads"])
            for name, position in facts["streams"].items():
                if name in self._streams:
                    self._streams[name].go_to(position)
        for draw in self.chooser.open():  # of a training that was interrupted
            self.chooser.forget(draw)
        output = super().train(resume_from_checkpoint or None, *args, **kwargs)
        self._teller.finish()
        return output

    # The reward of a step

    def _tell(self) -> None:
        """Tell the chooser the rewards of all processes, so that all choosers agree."""
        draw: Any = self.draw
        if self._losses is not None and all(one is not None for one in self._costs):
            self._losses.add(draw.cut(self.positions), torch.cat(self._costs))
        if self._by_row and not self._rewards_of_rows:
            self._teller.tell(draw, None)
            return
        drawn = zlib.crc32(draw.tasks.tobytes() + draw.rows.tobytes())
        if self._by_row:
            rewards = torch.zeros(len(draw.rows), dtype=torch.float64, device=self.args.device)
            rewards[torch.from_numpy(self.positions).to(rewards.device)] = torch.cat(self._rewards_of_rows).double()
        else:
            rewards = torch.tensor(self._measured(), dtype=torch.float64, device=self.args.device)
        values = self._gathered(torch.cat([rewards, rewards.new_tensor([draw.id, drawn])])[None])
        if self._by_row:
            self._teller.tell(draw, values)
        else:
            self._told(draw, values.cpu().numpy())

    def _gathered(self, values: torch.Tensor) -> torch.Tensor:
        """The values (1, …) of all processes, one below another."""
        return self.accelerator.gather(values) if self.args.world_size > 1 else values

    def _told(self, draw: Draw, values: NDArray[np.float64]) -> None:
        """Tell the chooser the measurements of the processes (P, …), which must have trained on the same draw."""
        *columns, ids, draws = values.T
        if len({*ids}) > 1 or len({*draws}) > 1:
            raise RunError(f"processes train on different draws {ids}; give all of them the same seed and data")
        rewards = np.sum(columns, axis=1) if draw.mixed else np.mean(columns)
        if np.isfinite(rewards).all():
            self.chooser.tell(draw, rewards)
        elif self.accelerator.scaler is not None:  # the scaler will skip this step and try a smaller scale
            self.chooser.forget(draw)
        else:
            wrong = next(iter(draw.sources[~np.isfinite(np.broadcast_to(rewards, len(draw.rows)))]))
            raise RunError(
                f"step {self.state.global_step + 1}: the reward of rows of '{wrong}' is not finite, because their "
                "gradient or the target's is not; check these rows, or lower the learning rate"
            )

    def _measured(self) -> NDArray[np.float64]:
        """The measurement of this process: one number for a draw of one source, otherwise one for each row, 0 for
        others' rows.
        """
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

    def _rewards(self, number: int) -> RowTransfer:
        """The reward object for the rows of this draw, with a gradient of the target that is not too old."""
        if self._gradient_reward is None:
            optimiser = getattr(self.optimizer, "optimizer", self.optimizer)
            self._gradient_reward = RowTransfer(
                self.model, None, self._target_loss, optimiser=optimiser, kind="loss", layers=self._parameters
            )
            self._aimed = -self._every
        if number - self._aimed >= self._every and not self._rewards_of_rows:
            with warnings.catch_warnings():
                # An embedding of positions is the same for all rows, so it never counts. Do not warn about it.
                warnings.filterwarnings("ignore", r"rewards of rows leave out \S*(wpe|pos)\S*: their layers do not run")
                self._gradient_reward.aim(_TARGET)
            self._aimed = number
        return self._gradient_reward  # type: ignore[no-any-return]

    def _target_loss(self, model: Any, rows: Any) -> torch.Tensor:
        """The mean loss of target rows. Each process reads other rows, at random, each time."""
        del rows
        processes, rank = self.args.world_size, self.args.process_index
        number = min(self._target_batch * processes, self._target_size)
        random = np.random.default_rng([self._seed, self._target_reads])
        drawn = random.choice(self._target_size, number, replace=False)
        mine = drawn[rank::processes] if len(drawn) >= processes else drawn
        inputs = self._collated((mine + self._starts[_TARGET]).tolist(), _TARGET_ROWS, self._target_reads, 0)
        self._target_reads += 1
        noted = copy.deepcopy(getattr(self, "_metrics", None))  # TRL's trainers store what they compute
        with self.compute_loss_context_manager():
            loss: torch.Tensor = self.compute_loss(model, self._prepare_inputs(inputs))
        if noted is not None:
            self._metrics = noted
        return loss

    def _read_streams(self, draw: Draw) -> dict[int, _Row]:
        """Read the rows of a draw that come from streams, by their places in it. Every process reads all of them."""
        return {
            place: _Row(row)
            for name, part in draw.by_source.items()
            if name in self._streams
            for place, row in zip(part.positions.tolist(), self._streams[name].take_on(len(part.rows)), strict=True)
        }

    def _collated(self, given: list[Any], *stream: int) -> Any:
        """A batch of rows, or of row numbers of the joined data, without the columns that the model does not take."""
        collate = self._get_collator_with_removed_columns(self.data_collator, description="Training")
        with _own_random(self._seed, self.args.process_index, *stream):
            numbers = [int(one) for one in given if not isinstance(one, _Row)]
            if hasattr(self.train_dataset, "__getitems__"):
                numbered = iter(self.train_dataset.__getitems__(numbers) if numbers else [])
            else:
                numbered = (self.train_dataset[number] for number in numbers)
            return collate([one.row if isinstance(one, _Row) else next(numbered) for one in given])


class _Told:
    """What the trainer's teller tells."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def tell(self, draw: Draw, values: Any) -> None:
        """Tell the measurements of the processes."""
        self._trainer._told(draw, values)

    def forget(self, draw: Draw) -> None:
        """Forget a draw that was not measured."""
        self._trainer.chooser.forget(draw)


def _refuse_packing(args: Any, streams: Mapping[str, Stream], prepares: bool) -> None:
    """Refuse settings that would turn the rows of the sources into other rows."""
    if getattr(args, "packing", False):
        raise ConfigError(
            "packing=True joins rows of several sources; give padding_free=True, which packs the rows of a "
            "micro-batch and keeps a reward for each row"
        )
    if streams and prepares:
        raise ConfigError(
            f"source '{next(iter(streams))}' is a stream, but this trainer prepares data sets as a whole; give data "
            "sets with a length, or use ScheduledTrainer with tokenised rows"
        )


def _numbered(dataset: Any) -> bool:
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")


def _learns(scheduler: str | Scheduler) -> bool:
    """Whether it uses rewards. ``auto`` follows the scheduler that it chooses."""
    if not isinstance(scheduler, str):
        return scheduler.family == "active"
    return scheduler == AUTO or family(scheduler) == "active"


def _sizes(datasets: Mapping[str, Any]) -> dict[str, int]:
    """The rows of each data set, by name. One that cannot be indexed or is empty is refused."""
    sizes = {}
    for name, dataset in datasets.items():
        if not _numbered(dataset):
            raise ConfigError(f"'{name}' has no length or row numbers; give a data set that has")
        if not len(dataset):
            raise ConfigError(f"'{name}' has no rows; leave it out")
        sizes[name] = len(dataset)
    return sizes


def _joined(datasets: list[Any]) -> Any:
    """All rows end to end, as a Hugging Face data set if all parts are such sets, so that others can map over it."""
    if all(type(one).__module__.startswith("datasets.") for one in datasets):
        from datasets import concatenate_datasets

        return concatenate_datasets(datasets)
    return ConcatDataset(datasets)


@contextmanager
def _own_random(*numbers: int) -> Iterator[None]:
    """Use random numbers that depend only on ``numbers``. Afterwards the training's own continue as if nothing had been
    drawn.

    So a collator that masks at random makes the same batch from the same draw, whenever and however often.
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
        >>> len(trainer.chooser.history()["task"])  # rows
        16
    """
