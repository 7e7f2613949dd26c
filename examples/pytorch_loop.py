"""PyTorch: three data sets, one model, and UCB decides which data set the next batch comes from.

Only data set 1 has the target's labels; 0 has them shuffled and 2 is noise. The reward is the fall of the target's
loss. Needs: pip install 'metasched[torch]'
"""

import torch
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

import metasched as ms
from metasched.torch import BatchSampler

torch.manual_seed(0)
centres = torch.randn(3, 8) * 2


def rows(number):
    labels = torch.randint(3, (number,))
    return centres[labels] + torch.randn(number, 8), labels


good, shuffled, noise = rows(600), rows(600), rows(600)
sources = [
    TensorDataset(shuffled[0], shuffled[1][torch.randperm(600)]),
    TensorDataset(*good),
    TensorDataset(torch.randn(600, 8), noise[1]),
]
target_inputs, target_labels = rows(100)

model = torch.nn.Linear(8, 3)
optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
loss_of = torch.nn.functional.cross_entropy

chooser = ms.Chooser("ucb", [len(source) for source in sources], batch_size=20)
sampler = BatchSampler(chooser, batches=150)
loader = DataLoader(ConcatDataset(sources), batch_sampler=sampler)

before = loss_of(model(target_inputs), target_labels).item()
for draw, (inputs, labels) in sampler.credit(loader):
    optimiser.zero_grad()
    loss_of(model(inputs), labels).backward()
    optimiser.step()
    with torch.no_grad():
        after = loss_of(model(target_inputs), target_labels).item()
    sampler.tell(draw, before - after)
    before = after

accuracy = (model(target_inputs).argmax(dim=1) == target_labels).float().mean().item()
drawn = torch.bincount(torch.from_numpy(chooser.history()["task"]), minlength=3).tolist()
print(f"target accuracy {accuracy:.2f}; batches of each source {drawn}")
