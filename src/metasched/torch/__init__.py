"""PyTorch: a chooser behind a ``DataLoader``, and rewards from gradients.

>>> sampler = BatchSampler(Chooser("thompson", {"a": len(a), "b": len(b)}, batch_size=32), batches=1000)
>>> loader = DataLoader(ConcatDataset([a, b]), batch_sampler=sampler, num_workers=4)
>>> reward = Transfer(model)                      # the target's gradient is kept for 4 steps
>>> for draw, batch in sampler.credit(loader):
...     loss(model, batch).backward()
...     sampler.tell(draw, reward(target_batch=target))  # before the optimiser's step
...     optimiser.step(); optimiser.zero_grad()

Workers prefetch, so several draws are under way at once; ``credit`` hands each batch out with the draw that made it.
Under ``torch.distributed`` rank 0 decides for all: the ranks train on the same draw, each on rows of
its own, and the mean of what they tell counts. Those messages travel in a group of their own and cannot get mixed up
with those of the training.
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
