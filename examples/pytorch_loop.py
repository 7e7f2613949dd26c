"""PyTorch: three data sets, one model, and Thompson sampling decides which data set the next batch comes from.

Only one has the target's labels; another has them shuffled and the third is noise. The reward is ``transfer``: how fast
the target gets better when the model takes the step that this batch asks for. Needs: pip install 'metasched[torch]'
"""

import torch
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

import metasched as ms
from metasched.torch import BatchSampler, Transfer

torch.manual_seed(0)
centres = torch.randn(3, 8) * 2


def rows(number):
    labels = torch.randint(3, (number,))
    return centres[labels] + torch.randn(number, 8), labels


good, shuffled, noise = rows(600), rows(600), rows(600)
sources = {
    "shuffled": TensorDataset(shuffled[0], shuffled[1][torch.randperm(600)]),
    "good": TensorDataset(*good),
    "noise": TensorDataset(torch.randn(600, 8), noise[1]),
}
target = rows(30)  # the rows that rewards are measured on: train on them too, they are rows like others
test_inputs, test_labels = rows(1000)

model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
loss_of = torch.nn.functional.cross_entropy

sizes = {name: len(source) for name, source in sources.items()}
chooser = ms.Chooser("thompson", sizes, batch_size=20, batching="per_source", forget=0.99)  # one reward a batch
sampler = BatchSampler(chooser, batches=150)
loader = DataLoader(ConcatDataset(sources.values()), batch_sampler=sampler)
reward = Transfer(model)  # keeps the target's gradient for 4 steps

for draw, (inputs, labels) in sampler.credit(loader):
    optimiser.zero_grad()
    loss_of(model(inputs), labels).backward()
    sampler.tell(draw, reward(target_batch=target))  # from .grad, before anything is added to it
    loss_of(model(target[0]), target[1]).backward()
    optimiser.step()

accuracy = (model(test_inputs).argmax(dim=1) == test_labels).float().mean().item()
drawn = torch.bincount(torch.from_numpy(sampler.chooser.history()["task"]), minlength=3).tolist()
print({name: round(value, 3) for name, value in sampler.chooser.log().items() if name.startswith("reward")})
print(f"test accuracy {accuracy:.2f}; batches of each source {drawn}")
