"""What the rows of a micro-batch predict, and the loss of each row, from the forward pass of training."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy, pad

from metasched.torch.rewards import IGNORED


class Tokens(NamedTuple):
    """What the outputs of a micro-batch should predict.

    Attributes:
        labels: (rows, length), the label that each output predicts, −100 for none; or (rows,) for classes.
        segments: (1, length), if several rows are packed into one: the row of each token; −1 for padding.
        number: the number of rows.
    """

    labels: torch.Tensor
    segments: torch.Tensor | None
    number: int

    def by_row(self, values: torch.Tensor) -> torch.Tensor:
        """Values of tokens summed by row (number,)."""
        if self.segments is None:
            return values if values.dim() == 1 else values.sum(1)
        places = torch.where(self.segments < 0, self.number, self.segments)[:, : values.shape[1]].reshape(-1)
        return values.new_zeros(self.number + 1).index_add_(0, places, values.reshape(-1))[:-1]


def tokens_of(inputs: Mapping[str, Any], number: int, shifts: bool) -> Tokens | None:
    """What a batch with this many rows predicts. None if its parts cannot be assigned to rows.

    ``shifts`` says that each output predicts the next label.
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
        segments = (places == 0).cumsum(1) - 1  # each row counts its positions from 0
        return Tokens(labels, torch.where(segments < number, segments, -1), number)
    return None


@contextmanager
def outputs_of(model: Any) -> Iterator[list[Any]]:
    """Capture the last outputs of the model, without another pass."""
    seen: list[Any] = []
    handle = model.register_forward_hook(lambda _model, _given, outputs: seen.__setitem__(slice(None), [outputs]))
    try:
        yield seen
    finally:
        handle.remove()


@torch.no_grad()  # type: ignore[untyped-decorator]
def losses_of(outputs: Any, tokens: Tokens) -> torch.Tensor | None:
    """The mean loss (number,) of the tokens of each row, NaN for a row without tokens. None if the outputs do not allow
    it.
    """
    chances, logits = (getattr(outputs, name, None) for name in ("log_probs", "logits"))
    if isinstance(chances, torch.Tensor):  # those of TRL, which have no logits
        counted = outputs.label_mask
        losses = -chances.float()
    elif isinstance(logits, torch.Tensor) and logits.shape[:-1] == tokens.labels.shape:
        counted = tokens.labels != IGNORED
        if tokens.labels.dim() == 1:
            losses = cross_entropy(logits.float(), tokens.labels, reduction="none")
        else:  # Row by row, because the logits of all rows in full precision may need more memory than the step itself.
            rows = zip(logits, tokens.labels, strict=True)
            losses = torch.stack([cross_entropy(one.float(), label, reduction="none") for one, label in rows])
    else:
        return None
    return tokens.by_row(losses * counted) / tokens.by_row(counted.float())
