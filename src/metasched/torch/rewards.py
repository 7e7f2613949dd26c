"""The reward of a batch, one number, from gradients of a PyTorch model: how much it helps the target.

``transfer``: how fast the target's accuracy rises when the model learns the batch,

    r = ⟨∇a(w; S), ∇a(w; T)⟩ / ‖∇a(w; T)‖,

a(w; rows) being the mean probability of the right label (accuracy made smooth), S the batch, T the target's rows, w the
weights before the step. ``alignment``: the cosine of the two losses' gradients. Zero is the reward of learning nothing.
For a reward of every row see ``row_transfer``.

Both leave the model as it was: ``.grad``, buffers (BatchNorm), training flags and random states. They run in
evaluation mode, so that dropout adds no noise, and under the autocast that is on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import nn

from metasched.errors import ConfigError, flag, whole_number

Measure: TypeAlias = Callable[[Any, Any], Any]
"""``measure(model, rows)``: returns logits (…, C) and labels (…), or one loss. Labels of −100 do not count."""
Parameters: TypeAlias = str | Iterable[Any] | None
"""All trainable parameters (None), those whose dotted name has a part that begins with a word, or a list of such words
or of parameters.
"""
IGNORED = -100
_SMALL = 2**24


def logits(model: Any, rows: Any) -> tuple[Any, Any]:
    """The default measure: rows are pairs (inputs, labels), and the model returns logits.

    Args:
        model: a module.
        rows: the pair.

    Returns:
        Logits (…, C) and labels (…).

    Examples:
        >>> import torch
        >>> from metasched.torch import logits
        >>> outputs, labels = logits(torch.nn.Linear(4, 2), (torch.rand(8, 4), torch.arange(8) % 2))
        >>> outputs.shape
        torch.Size([8, 2])
    """
    if not isinstance(rows, tuple | list) or len(rows) != 2 or not isinstance(rows[1], torch.Tensor):
        raise ConfigError(
            f"rows of type {type(rows).__name__} are not a pair of tensors (inputs, labels); give such a pair, "
            "or a function loss_or_logits(model, rows)"
        )
    return model(rows[0]), rows[1]


def transfer(
    model: Any, loss_or_logits: Measure | None, batch: Any, target_batch: Any, parameters: Parameters = None
) -> float:
    """Measure how fast the target gets better when the model learns ``batch``, at the present weights.

    Args:
        model: a module. If it is inside ``DistributedDataParallel``, give the inner module.
        loss_or_logits: ``f(model, rows)`` that returns logits and labels, or one loss L (then a = −L). None means
            :func:`logits`.
        batch: rows for ``f``, for one more backward pass. With None, minus the present ``.grad`` replaces ∇a(batch);
            call this after ``backward()`` and before the optimiser's step. This is the gradient of *your loss*.
        target_batch: the target's labelled rows.
        parameters: the parameters of the gradients: all trainable ones (None), those whose dotted name has a part that
            begins with this word, or a list of such words or of parameters.

    Returns:
        ⟨∇a(batch), ∇a(target)⟩ / ‖∇a(target)‖, where a is the mean probability of the right label.

    Examples:
        >>> import torch
        >>> from metasched.torch import transfer
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <torch...>
        >>> model, inputs = torch.nn.Linear(4, 2), torch.rand(8, 4)
        >>> labels = torch.arange(8) % 2
        >>> good = transfer(model, None, (inputs, labels), (inputs, labels))
        >>> bad = transfer(model, None, (inputs, 1 - labels), (inputs, labels))
        >>> good > 0 > bad
        True
    """
    return Transfer(model, loss_or_logits, parameters, every=1)(batch, target_batch)


def alignment(
    model: Any, loss_or_logits: Measure | None, batch: Any, target_batch: Any, parameters: Parameters = None
) -> float:
    """Measure the cosine between the gradients of the batch's loss and of the target's loss.

    Args:
        model: as in :func:`transfer`.
        loss_or_logits: as in :func:`transfer`.
        batch: as in :func:`transfer`.
        target_batch: as in :func:`transfer`.
        parameters: as in :func:`transfer`.

    Returns:
        A number from −1 to 1.

    Examples:
        >>> import torch
        >>> from metasched.torch import alignment
        >>> rows_of_it = torch.rand(8, 4), torch.arange(8) % 2
        >>> round(alignment(torch.nn.Linear(4, 2), None, rows_of_it, rows_of_it), 3)
        1.0
    """
    return Alignment(model, loss_or_logits, parameters, every=1)(batch, target_batch)


class Transfer:
    """:func:`transfer` at every step, with the target's gradient kept for several steps.

    ``reward(batch, target_batch)`` makes one more backward pass for the batch. ``reward(target_batch=target_batch)``
    uses the present ``.grad``. This costs nothing, but it is the gradient of the loss that you train on. If that is the
    cross-entropy, rows that stay wrong dominate, and the reward can prefer a source that does harm.
    :class:`RowTransfer` has neither problem, and gives every row of a mixed batch its own reward.

    Args:
        model: as in :func:`transfer`.
        loss_or_logits: as in :func:`transfer`.
        parameters: as in :func:`transfer`.
        every: k, the number of steps for which the target's gradient is kept. It is computed again at every k-th call.
        train: whether to measure in training mode, for layers with no gradient in evaluation mode (cuDNN's recurrent
            layers) or a very different one. Buffers are restored afterwards.

    Examples:
        >>> import torch
        >>> from metasched.torch import Transfer
        >>> generator = torch.manual_seed(0)
        >>> model, batch = torch.nn.Linear(4, 2), (torch.rand(8, 4), torch.arange(8) % 2)
        >>> reward = Transfer(model)
        >>> torch.nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        >>> reward(target_batch=batch) > 0  # what .grad is about to teach
        True
    """

    def __init__(
        self,
        model: Any,
        loss_or_logits: Measure | None = None,
        parameters: Parameters = None,
        every: int = 4,
        train: bool = False,
    ) -> None:
        self._model = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
        self._measure = loss_or_logits or logits
        self._parameters = selected(self._model, parameters)
        self._every = whole_number("every", every, least=1)
        self._train = flag("train", train)
        self._calls = 0
        self._slope: list[torch.Tensor | None] = []
        self._length = 0.0

    def __call__(self, batch: Any = None, target_batch: Any = None, scale: float = 1.0) -> float:
        """Measure the reward of ``batch``, or of the present ``.grad``. If a gradient overflowed it is NaN; forget such
        a draw.

        ``scale`` is the factor in ``.grad``: ``scaler.get_scale()`` of a ``GradScaler`` before ``unscale_``.
        ``target_batch`` is only used at every k-th call.
        """
        if self._calls % self._every == 0:
            if target_batch is None:
                raise ConfigError("the target's gradient is due; give target_batch")
            self._slope = self._gradient(target_batch, "target")
            self._length = _inner(self._slope, self._slope) ** 0.5
        reward = (
            -self._reward(self._standing(), scale) if batch is None else self._reward(self._gradient(batch, "batch"))
        )
        self._calls += 1
        return reward

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue with the same rewards: the target's gradient, and for how many calls it is
        still valid.

        Returns:
            Plain values and tensors, which ``torch.load(weights_only=True)`` reads. Their size is that of one gradient.

        Examples:
            >>> import torch
            >>> from metasched.torch import Transfer
            >>> Transfer(torch.nn.Linear(4, 2), every=8).state_dict()
            {'every': 8, 'age': 0, 'slope': []}
        """
        return {"every": self._every, "age": self._calls % self._every, "slope": list(self._slope)}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state_dict` returned.

        Args:
            stored: the state of a reward with the same ``every`` and the same parameters.

        Examples:
            >>> import torch
            >>> from metasched.torch import Transfer
            >>> model, batch = torch.nn.Linear(4, 2), (torch.rand(8, 4), torch.arange(8) % 2)
            >>> reward, later = Transfer(model), Transfer(model)
            >>> first = reward(batch, batch)
            >>> later.load_state_dict(reward.state_dict())  # its next three rewards need no target
            >>> later(batch) == first
            True
        """
        try:
            every, age, slope = stored["every"], stored["age"], list(stored["slope"])
            shapes = [None if part is None else part.shape for part in slope]
            if type(age) is not int or not 0 <= age < every:  # a range would look for a fraction number by number
                raise ValueError
            if not all(part is None or is_real(part) for part in slope):
                raise ValueError
        except (TypeError, KeyError, AttributeError, ValueError):
            raise ConfigError("this is not a state from state_dict() of a reward") from None
        if every != self._every:
            raise ConfigError(
                f"the state keeps the target's gradient for {every} steps, but this reward keeps it for {self._every}"
            )
        wanted = [one.shape for one in self._parameters] if slope or age else []
        if len(shapes) != len(wanted) or any(has not in (None, due) for has, due in zip(shapes, wanted, strict=True)):
            raise ConfigError(
                "the state belongs to other parameters; use the model and parameters that it was made with"
            )
        self._slope = [
            None if part is None else part.to(one.device) for part, one in zip(slope, self._parameters, strict=False)
        ]
        self._length = _inner(self._slope, self._slope) ** 0.5
        self._calls = age

    def _reward(self, mine: list[torch.Tensor | None], scale: float = 1.0) -> float:
        return _inner(mine, self._slope) / (self._length * scale) if self._length else 0.0

    def _goodness(self, outputs: Any, whose: str) -> torch.Tensor:
        """A(w; rows): the mean probability of the right label, or minus the loss."""
        if isinstance(outputs, torch.Tensor):
            return -_loss(outputs, whose)
        counted, labels = _flat(outputs, whose)
        return counted.softmax(dim=-1).gather(1, labels[:, None]).mean()

    def _gradient(self, rows: Any, whose: str) -> list[torch.Tensor | None]:
        """∇a(w; rows), with None for parameters that have no part in it."""
        with undisturbed(self._model, self._train), torch.enable_grad():
            goodness = self._goodness(self._measure(self._model, rows), whose)
            if not goodness.requires_grad:
                raise ConfigError(f"the outputs for the {whose} have no gradient; is it computed under no_grad?")
            slope = torch.autograd.grad(goodness, self._parameters, allow_unused=True)
        if all(part is None for part in slope):
            raise ConfigError(f"the outputs for the {whose} depend on none of these parameters; give other parameters")
        return list(slope)

    def _standing(self) -> list[torch.Tensor | None]:
        """Minus ``.grad``: the direction in which the model is about to go."""
        if all(parameter.grad is None for parameter in self._parameters):
            raise ConfigError("no parameter has a gradient; call backward() first, or give the batch")
        return [parameter.grad for parameter in self._parameters]


class Alignment(Transfer):
    """:func:`alignment` at every step, with the target's gradient kept for several steps. Used like :class:`Transfer`.

    Examples:
        >>> import torch
        >>> from metasched.torch import Alignment
        >>> batch = torch.rand(8, 4), torch.arange(8) % 2
        >>> round(Alignment(torch.nn.Linear(4, 2))(batch, batch), 3)
        1.0
    """

    def _reward(self, mine: list[torch.Tensor | None], scale: float = 1.0) -> float:
        del scale  # a cosine has no scale
        lengths = self._length * _inner(mine, mine) ** 0.5
        return _inner(mine, self._slope) / lengths if lengths else 0.0

    def _goodness(self, outputs: Any, whose: str) -> torch.Tensor:
        """Minus the loss, which is the cross-entropy if there are logits."""
        return -_loss(outputs, whose)


def selected(model: Any, parameters: Parameters) -> list[Any]:
    """The trainable parameters of ``model`` that are meant."""
    learning = {name: one for name, one in model.named_parameters() if one.requires_grad}
    if parameters is None:
        chosen = list(learning.values())
    else:
        wanted: Sequence[Any] = [parameters] if isinstance(parameters, str) else list(parameters)
        words = [one for one in wanted if isinstance(one, str)]
        for word in words:
            if not any(f".{word}" in f".{name}" for name in learning):
                raise ConfigError(f"no trainable parameter has a name with '{word}': {', '.join([*learning][:8])}, …")
        given = {id(one) for one in wanted if not isinstance(one, str)}
        chosen = [
            one for name, one in learning.items() if id(one) in given or any(f".{word}" in f".{name}" for word in words)
        ]
    if not chosen:
        raise ConfigError("none of these parameters is trainable; give some that require a gradient")
    return chosen


@contextmanager
def undisturbed(model: Any, train: bool = False) -> Iterator[None]:
    """Restore modes, buffers, autocast's cache and random states after the model computed something inside."""
    device = next(model.parameters()).device
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(module, dict(module._buffers)) for module in model.modules()] if train else []
    autocast = torch.autocast(
        device.type,
        torch.get_autocast_dtype(device.type),
        torch.is_autocast_enabled(device.type),
        cache_enabled=False,
    )
    devices = [device] if device.type == "cuda" else []
    try:
        model.train(train)
        # Clones replace the buffers, because a graph that waits for backward() may hold the buffers themselves.
        for module, own in buffers:
            module._buffers = {name: None if value is None else value.detach().clone() for name, value in own.items()}
        with torch.random.fork_rng(devices), autocast:
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for module, own in buffers:
            module._buffers = own


def is_real(part: Any) -> bool:
    """Whether it is a tensor of floating-point numbers, as slopes are."""
    return isinstance(part, torch.Tensor) and part.is_floating_point()


def _loss(outputs: Any, whose: str) -> torch.Tensor:
    """The loss itself, or the cross-entropy of logits and labels."""
    if not isinstance(outputs, torch.Tensor):
        return nn.functional.cross_entropy(*_flat(outputs, whose))
    if outputs.numel() != 1:
        raise ConfigError(
            f"the {whose}'s loss has shape {tuple(outputs.shape)}; return one number, or logits and labels"
        )
    return outputs.float().sum()


def _flat(pair: Any, whose: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (n, C) in full precision and labels (n,) of the places that count."""
    outputs, labels = pair
    if outputs.shape[:-1] != labels.shape:
        raise ConfigError(
            f"the {whose} has logits {tuple(outputs.shape)} for labels {tuple(labels.shape)}; give (…, C) and (…)"
        )
    flat = labels.reshape(-1)
    counts = flat != IGNORED
    if not bool(counts.any()):
        raise ConfigError(f"the {whose} has no labelled row; give at least one")
    wide = outputs.reshape(-1, outputs.shape[-1])[counts]
    return wide if wide.dtype == torch.float64 else wide.float(), flat[counts]


def _inner(left: Sequence[Any], right: Sequence[Any]) -> float:
    """⟨left, right⟩, summed over layers in double precision.

    On an accelerator, starting a product costs more than the product itself, so the layers of a small model become one
    row.
    """
    pairs = [(one, other) for one, other in zip(left, right, strict=True) if one is not None and other is not None]
    if not pairs:
        return 0.0
    if pairs[0][1].is_cuda and sum(other.numel() for _, other in pairs) <= _SMALL:
        pairs = [tuple(torch.cat([part.reshape(-1) for part in side]) for side in zip(*pairs, strict=True))]
    parts = [torch.dot(one.detach().reshape(-1).to(other.dtype), other.reshape(-1)) for one, other in pairs]
    return float(torch.stack(parts).double().sum())
