"""Lightning: batches come with their draws, checkpoints hold the schedule. Needs: metasched[torch] and lightning."""

import lightning
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

import metasched as ms
from metasched.torch import BatchSampler, Transfer

torch.set_num_threads(1)
centres = torch.randn(3, 8, generator=torch.manual_seed(0)) * 2


def rows(number, shuffled=False):
    labels = torch.randint(3, (number,))
    return centres[labels[torch.randperm(number)] if shuffled else labels] + torch.randn(number, 8), labels


sources, target, test = {"shuffled": rows(600, True), "good": rows(600)}, rows(30), rows(1000)
chooser = ms.Chooser("thompson", dict.fromkeys(sources, 600), 20, batching="per_source", forget=0.99)
sampler = BatchSampler(chooser, batches=50)
loader = DataLoader(ConcatDataset([TensorDataset(*source) for source in sources.values()]), batch_sampler=sampler)


class Draws:
    def __iter__(self):  # what Lightning goes through, once an epoch; it reads one batch ahead
        return sampler.credit(loader)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
        self.reward = Transfer(self.network)

    def transfer_batch_to_device(self, batch, device, number):
        return batch[0], super().transfer_batch_to_device(batch[1], device, number)

    def training_step(self, batch, _):
        self.draw, (inputs, labels) = batch
        return cross_entropy(self.network(inputs), labels)

    def on_after_backward(self):  # .grad is this batch's; accumulating several, tell self.reward(batch, target)
        sampler.tell(self.draw, self.reward(target_batch=target))
        cross_entropy(self.network(target[0]), target[1]).backward()

    def on_save_checkpoint(self, checkpoint):
        checkpoint["schedule"] = {"sampler": sampler.state_dict(), "worth": self.reward.state_dict()}

    def on_load_checkpoint(self, checkpoint):
        sampler.load_state_dict(checkpoint["schedule"]["sampler"])
        self.reward.load_state_dict(checkpoint["schedule"]["worth"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.Trainer(max_epochs=3, accelerator="cpu", barebones=True).fit(module := Module(), Draws())
drawn = [int(sampler.chooser.log(last=150)[f"draws/{name}"]) for name in sources]
print(f"test accuracy {(module.network(test[0]).argmax(1) == test[1]).float().mean():.2f}; batches of each {drawn}")
