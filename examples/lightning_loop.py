"""Lightning: a callback knows the draw of each batch, logs, and checkpoints. Needs: metasched[torch,lightning]."""

import lightning
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

import metasched as ms
from metasched.torch import BatchSampler, RowTransfer
from metasched.torch.lightning import ScheduleCallback

torch.set_num_threads(1)
centres = torch.randn(3, 8, generator=torch.manual_seed(0)) * 2


def rows(number, shuffled=False):
    labels = torch.randint(3, (number,))
    return centres[labels[torch.randperm(number)] if shuffled else labels] + torch.randn(number, 8), labels


sources, target, test = {"shuffled": rows(600, True), "good": rows(600)}, rows(30), rows(1000)
chooser = ms.Chooser("thompson", dict.fromkeys(sources, 600), 20, forget=0.99)
sampler = BatchSampler(chooser, batches=50)
loader = DataLoader(ConcatDataset([TensorDataset(*source) for source in sources.values()]), batch_sampler=sampler)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
        self.reward = RowTransfer(self.network, target, every=2)

    def training_step(self, batch, _):
        inputs, labels = batch
        losses = self.reward.rows(cross_entropy(self.network(inputs), labels, reduction="none"))
        return {"loss": losses.mean(), "losses": losses.detach()}  # losses: for loss/<source> in the log

    def on_after_backward(self):  # the target's rows are rows: train on them as well
        cross_entropy(self.network(target[0]), target[1]).backward()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


module = Module()
schedule = ScheduleCallback(sampler, module.reward)  # rewards, logs, and its part of every checkpoint
lightning.Trainer(max_epochs=3, accelerator="cpu", barebones=True, callbacks=[schedule]).fit(module, loader)
drawn = [int(chooser.log()[f"draws/{name}"]) for name in sources]
print(f"test accuracy {(module.network(test[0]).argmax(1) == test[1]).float().mean():.2f}; rows of each {drawn}")
