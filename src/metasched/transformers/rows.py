"""What the rows of a micro-batch predict, and what each of them costs, from the forward pass that trains on them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy, pad

from metasched.torch.rewards import IGNORED


class Tokens(NamedTuple):
    """What the outputs of a micro-batch are to predict.

    Attributes:
        labels: (rows, length), of what each output predicts, −100 where that is nothing; (rows,) of classes.
        segments: (1, length), where several rows follow one another in one: whose each token is; −1 for padding.
        number: of rows.
    """

    labels: torch.Tensor
    segments: torch.Tensor | None
    number: int

    def by_row(self, values: torch.Tensor) -> torch.Tensor:
        """Values of tokens added up by row (number,)."""
        if self.segments is None:
            return values if values.dim() == 1 else values.sum(1)
        places = torch.where(self.segments < 0, self.number, self.segments)[:, : values.shape[1]].reshape(-1)
        return values.new_zeros(self.number + 1).index_add_(0, places, values.reshape(-1))[:-1]


def tokens_of(inputs: Mapping[str, Any], number: int, shifts: bool) -> Tokens | None:
    """What a batch of so many rows predicts; None where it is not known which of it belongs to which row.

    ``shifts`` says that an output predicts the label after it.
    """
    shifted = inputs.get("shift_labels")
    labels = inputs.get("labels") if shifted is None else shifted
    if not isinstance(labels, torch.Tensor) or labels.dim() not in (1, 2) or labels.is_floating_point():
        return None
    if shifted is None and shifts and labels.dim() == 2:
        labels = pad(labels[:, 1:], (0, 1), value=IGNORED)
    if len(labels) == number:
        return Tokens(labels, None, number)
    places = inputs.get("position_ids")
    if len(labels) == 1 and isinstance(places, torch.Tensor) and places.shape == labels.shape:
        segments = (places == 0).cumsum(1) - 1  # each row counts its places from 0
        return Tokens(labels, torch.where(segments < number, segments, -1), number)
    return None


@contextmanager
def outputs_of(model: Any) -> Iterator[list[Any]]:
    """What the model returns inside, the last of it, without a pass of its own."""
    seen: list[Any] = []
    handle = model.register_forward_hook(lambda _model, _given, outputs: seen.__setitem__(slice(None), [outputs]))
    try:
        yield seen
    finally:
        handle.remove()


@torch.no_grad()  # type: ignore[untyped-decorator]
def losses_of(outputs: Any, tokens: Tokens) -> torch.Tensor | None:
    """The mean loss (number,) of the tokens of each row, NaN where it has none; None where the outputs do not tell."""
    chances, logits = (getattr(outputs, name, None) for name in ("log_probs", "logits"))
    if isinstance(chances, torch.Tensor):  # TRL's, which has no logits
        counted = outputs.label_mask
        losses = -chances.float()
    elif isinstance(logits, torch.Tensor) and logits.shape[:-1] == tokens.labels.shape:
        counted = tokens.labels != IGNORED
        if tokens.labels.dim() == 1:
            losses = cross_entropy(logits.float(), tokens.labels, reduction="none")
        else:  # row by row, as the logits of all rows in full precision may need more memory than the step itself
            rows = zip(logits, tokens.labels, strict=True)
            losses = torch.stack([cross_entropy(one.float(), label, reduction="none") for one, label in rows])
    else:
        return None
    return tokens.by_row(losses * counted) / tokens.by_row(counted.float())
