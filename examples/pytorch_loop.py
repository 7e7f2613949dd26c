"""PyTorch: three data sets, one model, and Thompson sampling decides which data set each row of a batch comes from.

Only one has the target's labels; another has them shuffled and the third is noise. Every row has a reward of its own:
how fast the target gets better when the model learns it. Needs: pip install 'metasched[torch]'
"""

import torch
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

import metasched as ms
from metasched.torch import BatchSampler, RowTransfer, Teller

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
sampler = BatchSampler(ms.Chooser("thompson", sizes, batch_size=20), batches=150)
loader = DataLoader(ConcatDataset(sources.values()), batch_sampler=sampler)
reward = RowTransfer(model, target, optimiser=optimiser, every=2, refresh=4)
teller = Teller(sampler)

for draw, (inputs, labels) in sampler.credit(loader):
    with reward.watch():  # every second batch is measured
        losses = reward.rows(loss_of(model(inputs), labels, reduction="none"))
        losses.mean().backward()
    teller.tell(draw, reward.rewards())
    loss_of(model(target[0]), target[1]).backward()
    optimiser.step()
    optimiser.zero_grad()
teller.finish()

accuracy = (model(test_inputs).argmax(dim=1) == test_labels).float().mean().item()
print({name: round(value, 3) for name, value in sampler.chooser.log().items() if name.startswith("reward")})
drawn = torch.bincount(torch.from_numpy(sampler.chooser.history()["task"]), minlength=3).tolist()
print(f"test accuracy {accuracy:.2f}; rows of each source {drawn}")
