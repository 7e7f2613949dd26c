"""PyTorch: a chooser behind a ``DataLoader``, and rewards from gradients.

>>> sampler = BatchSampler(Chooser("thompson", {"a": len(a), "b": len(b)}, batch_size=32), batches=1000)
>>> loader = DataLoader(ConcatDataset([a, b]), batch_sampler=sampler, num_workers=4)
>>> reward = RowTransfer(model, target, optimiser=optimiser)   # target: labelled rows that you care about
>>> teller = Teller(sampler)
>>> for draw, (inputs, labels) in sampler.credit(loader):
...     with reward.watch():                                   # every 8th batch is measured
...         losses = reward.rows(cross_entropy(model(inputs), labels, reduction="none"))
...         losses.mean().backward()
...     teller.tell(draw, reward.rewards())                    # one number for each row, or None
...     optimiser.step(); optimiser.zero_grad()
>>> teller.finish()

Workers prefetch, so several draws are open at once. ``credit`` yields each batch with the draw that made it. Under
``torch.distributed`` rank 0 decides for all. The ranks train on the same draw, each on its own rows, and tell the
rewards of their rows. These messages use their own process group, so they cannot get mixed up with those of the
training.
"""

from metasched.optional import require

require("torch", "torch")

from metasched.torch.mixer import Mixer  # noqa: E402
from metasched.torch.rewards import Alignment, Transfer, alignment, logits, transfer  # noqa: E402
from metasched.torch.row_transfer import RowTransfer  # noqa: E402
from metasched.torch.sampler import BatchSampler  # noqa: E402
from metasched.torch.teller import Teller  # noqa: E402

__all__ = [
    "Alignment",
    "BatchSampler",
    "Mixer",
    "RowTransfer",
    "Teller",
    "Transfer",
    "alignment",
    "logits",
    "transfer",
]
