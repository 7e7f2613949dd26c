"""A reward for every row of a batch, from the backward pass that trains on it.

The reward of row i is how fast the target gets better when the model learns this row:

    r_i = ⟨∇a_i, d⟩ / ‖d‖,     d = ∇a(T), or with Adam ∇a(T) / (√v + ε),

where a_i is the probability of the row's right label, a(T) its mean over the target's rows, and v Adam's running mean
of squared gradients. As a_i = exp(−ℓ_i), with ℓ_i the row's cross-entropy, ∇a_i = −a_i ∇ℓ_i.

No row needs a gradient of its own. During the ordinary backward pass, a hook on the output of each layer gets δ, the
gradient with respect to these outputs. The inner product of row i's part of δ with the change of its outputs, when the
layer's weights change along d, is the layer's part of ⟨∇ℓ_i, d⟩ (``row_layers``). This is one more product for each
layer.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from metasched.errors import ConfigError, flag, one_of, whole_number
from metasched.torch.rewards import IGNORED, Measure, Parameters, is_real, logits, undisturbed
from metasched.torch.row_layers import Kind, counted_layers, leave_out, module_inside, part, weights_of
from metasched.torch.row_record import Kept, Record
from metasched.torch.step_sizes import step_sizes

KINDS = ("probability", "loss")


class RowTransfer:
    """One reward for every row of a batch, from the backward pass that trains on it.

    Train inside ``with reward.watch():``. Pass the losses of the rows to ``rows`` before ``backward()``. Afterwards,
    ``rewards()`` returns a tensor with one reward for each row, on the model's device, without waiting for the device.
    Most steps are not measured. ``rewards()`` is then None; :class:`Teller` accepts both. ``.grad``, buffers, modes and
    random numbers stay as they would be without rewards.

    Linear layers, convolutions, embeddings and normalisations count, including those of Hugging Face's models. The
    first dimension of a layer's inputs must be the rows. Parameters of other layers are left out, and named once in a
    warning.

    Args:
        model: a module. It may be inside ``DistributedDataParallel`` or ``torch.compile``. A compiled model runs
            uncompiled on the steps that are measured.
        target: labelled rows of the target, or a function or an iterator that returns such rows, so that each gradient
            uses other rows. Half as many rows as a batch has are enough. With None, call :meth:`aim` yourself.
        loss_or_logits: ``f(model, rows)`` for the target's rows: logits (…, C) and labels (…), with −100 for no label;
            or their mean loss. None: the rows are (inputs, labels), and the model returns logits.
        optimiser: the optimiser of the model. If it is Adam or a variant, rewards follow its steps. With None they
            follow the gradient.
        kind: ``"probability"``: how fast the probability of the row's right label rises with the target's, which is for
            classification. ``"loss"``: how fast the loss of both falls, which is for language models.
        layers: the layers that count: all (None), ``"last"``, or those whose dotted name has a part that begins with
            one of these words. Fewer layers cost less.
        every: j; rewards are measured at every j-th call of :meth:`watch`.
        refresh: k; the target's gradient is computed again after at least k calls of :meth:`watch`.
        train: whether the target's gradient is computed in training mode, for layers that have none in evaluation mode.

    Examples:
        >>> import torch
        >>> from metasched.torch import RowTransfer
        >>> generator = torch.manual_seed(0)
        >>> model, inputs, labels = torch.nn.Linear(4, 2), torch.rand(8, 4), torch.arange(8) % 2
        >>> reward = RowTransfer(model, target=(inputs, labels), every=1)
        >>> wrong = torch.cat([labels[:4], 1 - labels[4:]])  # the labels of the last four rows are wrong
        >>> with reward.watch():
        ...     losses = reward.rows(torch.nn.functional.cross_entropy(model(inputs), wrong, reduction="none"))
        ...     losses.mean().backward()
        >>> rewards = reward.rewards()
        >>> rewards.shape, bool(rewards[:4].mean() > rewards[4:].mean())
        (torch.Size([8]), True)
    """

    def __init__(
        self,
        model: Any,
        target: Any = None,
        loss_or_logits: Measure | None = None,
        *,
        optimiser: Any = None,
        kind: str = "probability",
        layers: Parameters = None,
        every: int = 8,
        refresh: int = 16,
        train: bool = False,
    ) -> None:
        if optimiser is not None and not hasattr(optimiser, "param_groups"):
            raise ConfigError(f"optimiser is a {type(optimiser).__name__}; give the model's PyTorch optimiser, or None")
        self._model = module_inside(model)
        self._target, self._measure, self._optimiser = target, loss_or_logits or logits, optimiser
        self._by_probability = one_of("kind", kind, KINDS) == "probability"
        self._every, self._refresh = whole_number("every", every, least=1), whole_number("refresh", refresh, least=1)
        self._train = flag("train", train)
        self._layers, self._names = counted_layers(self._model, layers)
        trained = () if optimiser is None else {id(one) for group in optimiser.param_groups for one in group["params"]}
        if optimiser is not None and not any(key in trained for key in self._names):
            raise ConfigError("the optimiser trains none of the parameters that count; give the one of this model")
        self._looked = False  # whether it is known which layers run, and on rows
        self._directions: dict[int, torch.Tensor] = {}  # by the id of the parameter, multiplied by _gain
        self._calls, self._aimed = 0, -1
        self._record: Record | None = None
        self._named_late = False

    # Called by a training loop

    @contextmanager
    def watch(self, measured: bool | None = None) -> Iterator[bool]:
        """Run the forward and backward pass of one batch inside. Every j-th call is measured, unless you say otherwise.

        Args:
            measured: whether to measure this batch. None means at every j-th call.

        Yields:
            Whether the batch is measured.

        Examples:
            >>> import torch
            >>> from metasched.torch import RowTransfer
            >>> reward = RowTransfer(torch.nn.Linear(4, 2), every=2)
            >>> reward.aim((torch.rand(8, 4), torch.arange(8) % 2))
            >>> for _ in range(4):
            ...     with reward.watch() as measured:
            ...         print(measured)
            True
            False
            True
            False
        """
        due = self._calls % self._every == 0 if measured is None else flag("measured", measured)
        self._record = None
        if not due:
            yield False
            self._calls += 1
            return
        if self._target is not None and (self._aimed < 0 or self._calls - self._aimed >= self._refresh):
            self.aim(_batch_of(self._target))
        if not self._directions:
            raise ConfigError("there is no gradient of the target yet; give target, or call aim(rows) first")
        record = self._record = Record()
        with ExitStack() as stack:
            # Compiled code does not see hooks that come and go.
            if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            for layer, kind in self._layers:
                hook = layer.register_forward_hook(self._hook(record, kind), with_kwargs=True, prepend=True)
                stack.callback(hook.remove)
            yield True
        self._calls += 1

    def rows(
        self,
        losses: torch.Tensor | None = None,
        *,
        labels: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        number: int | None = None,
        scale: float = 1.0,
    ) -> Any:
        """Pass the losses of the rows, before ``backward()`` goes through them.

        It makes no difference how you combine the losses (a mean, weights, a division for accumulation, a scale for
        float16), because this shows in the gradient that reaches ``losses``. A row's loss is the mean of its tokens'
        losses, weighted as the batch's loss weighs them.

        Args:
            losses: (n,) for rows, or (n, length) for their tokens. Tokens without a label do not count: give
                ``labels``, or losses that are 0 there, as in PyTorch. Use None if the model returns only the mean over
                all tokens. Then ``labels`` show how long the rows are, and the kind must be ``"loss"``.
            labels: (n, length), the labels of the tokens, −100 for no label.
            segments: (n, length), for packed sequences: the segment of each token, 0, 1, … over the whole batch and −1
                for padding. Every segment then has its own reward.
            number: the number of segments. Give it if ``segments`` is on an accelerator; otherwise finding it out waits
                for the device.
            scale: without ``losses``, the factor by which the mean loss is multiplied before ``backward()``.

        Returns:
            ``losses``.

        Examples:
            >>> import torch
            >>> from metasched.torch import RowTransfer
            >>> model, tokens = torch.nn.Sequential(torch.nn.Embedding(9, 5), torch.nn.Linear(5, 9)), torch.arange(8)
            >>> rows = torch.stack([tokens, tokens.flip(0)])
            >>> def loss(model, rows):
            ...     logits = model(rows[:, :-1]).transpose(1, 2)
            ...     return torch.nn.functional.cross_entropy(logits, rows[:, 1:], reduction="none")
            >>> mean_loss = lambda model, rows: loss(model, rows).mean()
            >>> reward = RowTransfer(model, rows[:1], mean_loss, kind="loss", every=1)
            >>> with reward.watch():
            ...     reward.rows(loss(model, rows)).mean().backward()
            >>> reward.rewards().shape
            torch.Size([2])
        """
        record = self._record
        if record is None:
            return losses
        if losses is None and (labels is None or self._by_probability):
            raise ConfigError("give the losses of the rows; only kind='loss' works with labels alone")
        record.expect(losses, labels, segments, number, scale)
        return losses

    def rewards(self) -> torch.Tensor | None:
        """The rewards of the rows of the last watched batch.

        Returns:
            One reward for each row (n,), or for each segment, on the device. None if the batch was not measured. NaN if
            a gradient overflowed; :class:`Teller` forgets such a draw.
        """
        record = self._record
        if record is None:
            return None
        if not record.told:
            raise ConfigError("rows(losses) was not called inside watch(), so the rows of the batch are unknown")
        skipped = [f"{self._name_of(layer)} has {tuple(shape)}" for layer, shape in record.skipped.items()]
        if not record.products and skipped:
            raise ConfigError(
                f"there are losses of {record.shape[0]} rows, but no layer has outputs that begin with as many "
                f"({skipped[0]}); put the rows first in the model's inputs, and give the loss of every row"
            )
        if not record.products:
            raise ConfigError(
                "no layer took part in a backward pass inside watch(); there call the model, rows(losses) and then "
                "backward(), on the model given here"
            )
        if skipped and not self._named_late:
            self._named_late = True
            leave_out(skipped, f"their outputs do not begin with {tuple(record.shape)} rows")
        weights, losses = record.weights_and_losses()
        total = torch.stack([one.to(weights.device) for one in record.products]).sum(0) / -self._gain()
        shares = weights.to(total.dtype)
        rewards = torch.where(shares != 0, total / shares, 0)
        return rewards * torch.exp(-losses.to(total.dtype)) if self._by_probability else rewards

    def aim(self, rows: Any) -> None:
        """Compute the target's gradient again. ``watch`` does this by itself if ``target`` was given.

        Args:
            rows: labelled rows of the target.

        Examples:
            >>> import torch
            >>> from metasched.torch import RowTransfer
            >>> RowTransfer(torch.nn.Linear(4, 2)).aim((torch.rand(8, 4), torch.arange(8) % 2))
        """
        with undisturbed(self._model, self._train), torch.enable_grad():
            ran: dict[Any, torch.Tensor] = {}
            hooks = (
                []
                if self._looked
                else [layer.register_forward_hook(_noting(ran), with_kwargs=True) for layer, _ in self._layers]
            )
            try:
                goodness = self._goodness(self._measure(self._model, rows))
            finally:
                for hook in hooks:
                    hook.remove()
            if not self._looked:
                self._leave_out_of(ran)
            parameters, self._directions = self._parameters(), {}  # so that there are never two directions in memory
            slopes = _slopes(goodness, parameters)
        self._directions = dict(zip(map(id, parameters), self._unit(parameters, slopes), strict=True))
        self._aimed = self._calls

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue with the same rewards: the target's gradient, and how long it is still valid.

        Returns:
            Plain values and tensors, which ``torch.load(weights_only=True)`` reads. Their size is that of one gradient.

        Examples:
            >>> import torch
            >>> from metasched.torch import RowTransfer
            >>> RowTransfer(torch.nn.Linear(4, 2)).state_dict()
            {'every': 8, 'refresh': 16, 'calls': 0, 'aimed': -1, 'directions': {}}
        """
        return {
            "every": self._every,
            "refresh": self._refresh,
            "calls": self._calls,
            "aimed": self._aimed,
            "directions": {self._names[key]: value for key, value in self._directions.items()},
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state_dict` returned.

        Args:
            stored: the state of a reward with the same ``every`` and ``refresh`` for the same model.

        Examples:
            >>> import torch
            >>> from metasched.torch import RowTransfer
            >>> model = torch.nn.Linear(4, 2)
            >>> reward, later = RowTransfer(model), RowTransfer(model)
            >>> reward.aim((torch.rand(8, 4), torch.arange(8) % 2))
            >>> later.load_state_dict(reward.state_dict())
        """
        known = {name: one for name, one in self._model.named_parameters() if id(one) in self._names}
        try:
            every, refresh = stored["every"], stored["refresh"]
            calls, aimed = whole_number("calls", stored["calls"], 0), whole_number("aimed", stored["aimed"], -1)
            shapes = {name: value.shape for name, value in stored["directions"].items()}
            if not all(map(is_real, stored["directions"].values())):
                raise TypeError
        except (TypeError, KeyError, AttributeError, ConfigError):
            raise ConfigError("this is not a state from state_dict() of a RowTransfer") from None
        if (every, refresh) != (self._every, self._refresh):
            raise ConfigError(
                f"the state has every={every} and refresh={refresh}, this one every={self._every} and "
                f"refresh={self._refresh}; make them equal"
            )
        ours = {self._names[id(one)]: one.shape for one in self._parameters()}
        if any(ours.get(name) != shape for name, shape in shapes.items()):
            raise ConfigError("the state belongs to other parameters; use the model and layers that it was made with")
        self._calls, self._aimed, self._record = calls, aimed, None
        self._directions = {
            id(known[name]): value.to(known[name].device, copy=True) for name, value in stored["directions"].items()
        }
        if shapes:
            self._keep({id(known[name]) for name in shapes})

    # How it works

    def _hook(self, record: Record, kind: Kind) -> Callable[..., None]:
        """The forward hook of a layer of this kind."""

        def forward(layer: Any, given: Any, named: Any, output: torch.Tensor) -> None:
            if not output.requires_grad:  # evaluation, or the first pass of a reentrant checkpoint
                return
            weight, bias = (layer._parameters.get(name) for name in ("weight", "bias"))
            moves = weight is not None and id(weight) in self._directions
            entered = given[0] if given else next(iter(named.values()))
            kept = [Kept.apply(record.anchor, entered.detach()).grad_fn] if moves else []

            def backward(slope: torch.Tensor) -> None:
                with torch.no_grad(), torch.autocast(slope.device.type, enabled=False):
                    inputs = kept.pop().saved_tensors[0] if moves else None  # the graph may outlive this pass
                    if not record.fits(slope):
                        if record.told:
                            record.skipped.setdefault(layer, slope.shape)
                        return
                    along = self._along(weight, slope, kind), self._along(bias, slope, kind)
                    record.add(part(layer, kind, inputs, *along, slope, len(record.shape)))

            output.register_hook(backward)

        return forward

    def _along(self, parameter: Any, slope: torch.Tensor, kind: Kind) -> torch.Tensor | None:
        """The direction of a parameter, in the type in which the layer computes."""
        direction = self._directions.get(id(parameter))
        if direction is not None and direction.dtype != slope.dtype and not kind.precise:
            direction = self._directions[id(parameter)] = direction.to(slope.dtype)  # once for each direction
        return direction

    def _unit(self, parameters: list[Any], slopes: list[torch.Tensor]) -> list[torch.Tensor]:
        """The normalised direction along these slopes, or along the step that Adam makes from them. Its length is the
        gain.
        """
        with torch.no_grad():
            sizes = step_sizes(self._optimiser, parameters)
            for place, slope in enumerate(slopes):  # one after another, so that only one gradient is in memory, not two
                slopes[place] = slope if sizes is None else slope * sizes[place]().to(slope.dtype)
            norms = torch.stack([torch.linalg.vector_norm(slope).to(slopes[0].device) for slope in slopes])
            length = (norms if norms.dtype == torch.float64 else norms.float()).norm()
            by = torch.where(length > 0, self._gain() / length, 0)
            for place, slope in enumerate(slopes):
                slopes[place] = slope * by.to(slope.device, slope.dtype)
        return slopes

    def _goodness(self, outputs: Any) -> torch.Tensor:
        """a(T): the mean probability of the right label, or minus the loss, without waiting for a device."""
        if isinstance(outputs, torch.Tensor):
            if outputs.numel() != 1:
                raise ConfigError(
                    f"the target's loss has shape {tuple(outputs.shape)}; return one number, or logits and labels"
                )
            goodness = -outputs.sum()
        else:
            wide, labels = outputs
            if wide.shape[:-1] != labels.shape:
                raise ConfigError(
                    f"the target has logits {tuple(wide.shape)} for labels {tuple(labels.shape)}; give (…, C) and (…)"
                )
            flat = wide.reshape(-1, wide.shape[-1])
            flat = flat if flat.dtype == torch.float64 else flat.float()
            losses = nn.functional.cross_entropy(flat, labels.reshape(-1), reduction="none", ignore_index=IGNORED)
            counted = labels.reshape(-1) != IGNORED
            if not self._looked and not bool(counted.any()):  # later it would wait for the device
                raise ConfigError("the target has no labelled row; give at least one")
            each = torch.exp(-losses) * counted if self._by_probability else -losses
            goodness = each.sum() / counted.sum()
        if not goodness.requires_grad:
            raise ConfigError("the outputs for the target have no gradient; is it computed under no_grad?")
        return goodness

    def _parameters(self) -> list[Any]:
        """The parameters that count, each once, even if layers share one."""
        every = {id(one): one for layer, _ in self._layers for one in weights_of(layer)}
        return [one for key, one in every.items() if key in self._names]

    def _gain(self) -> float:
        """Directions are scaled so that their entries are about 1/16, because float16 has no small numbers."""
        return float(sum(one.numel() for one in self._parameters()) ** 0.5 / 16)

    def _leave_out_of(self, ran: Mapping[Any, torch.Tensor]) -> None:
        """Leave out layers that do not run, or not on rows. The first pass over the target's rows shows this."""
        self._looked = True
        sizes = [len(entered) for entered in ran.values() if entered.dim()]
        number = max(set(sizes), key=sizes.count) if sizes else 0

        def by_rows(layer: Any) -> bool:
            entered = ran.get(layer)
            if entered is None or not entered.dim() or len(entered) != number:
                return False
            # It has as many places as rows. An embedding of positions is the same for all rows.
            places = isinstance(layer, nn.Embedding) and entered.dim() == 1
            return not (places and torch.equal(entered, torch.arange(number, device=entered.device)))

        stays = {id(one) for layer, _ in self._layers if by_rows(layer) for one in weights_of(layer)} & {*self._names}
        stays -= {id(one) for layer in ran if not by_rows(layer) for one in weights_of(layer)}
        gone = [self._names[id(one)] for one in self._parameters() if id(one) not in stays]
        if not stays:
            raise ConfigError("none of the layers ran on the target's rows; give the model that these rows go through")
        self._keep(stays)
        if gone:
            leave_out(gone, "their layers do not run, or not once for each row")

    def _keep(self, stays: set[int]) -> None:
        self._looked = True
        self._names = {key: name for key, name in self._names.items() if key in stays}
        self._layers = [
            (layer, kind) for layer, kind in self._layers if any(id(one) in stays for one in weights_of(layer))
        ]

    def _name_of(self, layer: Any) -> str:
        return next(str(name) for name, module in self._model.named_modules() if module is layer)


def _slopes(goodness: torch.Tensor, parameters: list[Any]) -> list[torch.Tensor]:
    try:
        return list(torch.autograd.grad(goodness, parameters, materialize_grads=True))
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise ConfigError(
            "the target's gradient cannot go through this checkpoint; give it use_reentrant=False"
        ) from None


def _noting(ran: dict[Any, torch.Tensor]) -> Callable[..., None]:
    """A forward hook that stores the inputs of a layer."""

    def note(layer: Any, given: Any, named: Any, _: Any) -> None:
        ran[layer] = (given[0] if given else next(iter(named.values()))).detach()

    return note


def _batch_of(target: Any) -> Any:
    """The next rows of the target: from a function, from an iterator, or the same rows again."""
    if callable(target):
        return target()
    if isinstance(target, Iterator):
        rows = next(target, None)
        if rows is None:
            raise ConfigError("target has no more batches; give one without an end, such as itertools.cycle(loader)")
        return rows
    return target
