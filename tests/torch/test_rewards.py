"""Rewards from gradients of a PyTorch model: exact, and nothing of the model is disturbed."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metasched as ms
from helpers import as_float64, make_tasks
from metasched.errors import ConfigError
from metasched.learners import rewards
from metasched.learners.losses import Rows, objective_of
from metasched.learners.networks import mlp

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from metasched.torch import Alignment, Transfer, alignment, transfer  # noqa: E402
from metasched.torch.rewards import selected  # noqa: E402

WAYS = {"transfer": (transfer, Transfer), "alignment": (alignment, Alignment)}


def cross_entropy(model, rows):
    return nn.functional.cross_entropy(model(rows[0]), rows[1])


def rows(count, seed=0, dtype=torch.float32):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=random, dtype=dtype), torch.randint(3, (count,), generator=random)


def small(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)


def restless(seed=0):
    """A model with everything that a careless measurement would disturb."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 3))


def goodness(model, rows):
    return model(rows[0]).softmax(dim=1)[torch.arange(len(rows[1])), rows[1]].mean()


class TestExact:
    def test_transfer_is_the_speed_at_which_the_target_gets_better_along_the_batch(self):
        """Finite differences in float64: both slopes weight by weight, (a(w + h) − a(w − h)) / 2h."""
        model, batch, target = small(dtype=torch.float64), rows(8, 1, torch.float64), rows(5, 2, torch.float64)
        parameters = list(model.parameters())
        start, step = nn.utils.parameters_to_vector(parameters).detach().clone(), 1e-6

        def at(weights, of):
            nn.utils.vector_to_parameters(weights, parameters)
            with torch.no_grad():
                return goodness(model, of).item()

        def slope(of):
            eye = torch.eye(len(start), dtype=torch.float64) * step
            return torch.tensor(
                [(at(start + e, of) - at(start - e, of)) / (2 * step) for e in eye], dtype=torch.float64
            )

        mine, theirs = slope(batch), slope(target)
        nn.utils.vector_to_parameters(start, parameters)
        expected = (mine @ theirs / theirs.norm()).item()
        assert transfer(model, None, batch, target) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.usefixtures("_float64")
    @pytest.mark.parametrize("name", WAYS)
    def test_agrees_with_our_jax_reward_on_the_same_weights(self, name):
        tasks, network = make_tasks(), mlp(3, (6, 5))
        objective = objective_of(tasks, network, ms.Joint(batch_size=4).resolve(tasks))
        weights = as_float64(network.init(jax.random.key(1), jnp.zeros((1, 4))))
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
        with torch.no_grad():
            for layer, own in zip(model[::2], weights, strict=True):
                layer.weight.copy_(torch.tensor(np.array(own["w"]).T))
                layer.bias.copy_(torch.tensor(np.array(own["b"])))

        def both(split, count):
            inputs, labels = np.asarray(split.inputs[:count], np.float64), np.asarray(split.labels[:count])
            ours = Rows(jnp.asarray(inputs), jnp.asarray(labels, jnp.int32))
            return ours, (torch.tensor(inputs), torch.tensor(labels, dtype=torch.int64))

        (batch, own_batch), (target, own_target) = both(tasks.tasks[1], 7), both(tasks.validation, 10)
        turn = dict.fromkeys(rewards.Turn._fields) | {
            "before": weights,
            "batch": batch,
            "head": jnp.int32(0),
            "trains": jnp.bool_(True),
            "target": target,
            "slope": rewards.target_slope(objective, weights, target),
        }
        expected = float(rewards.find(name)(objective, rewards.Turn(**turn)))
        assert WAYS[name][0](model, None, own_batch, own_target) == pytest.approx(expected, rel=1e-9)

    def test_grad_as_it_stands_is_what_the_model_is_about_to_learn(self):
        model, batch, target = small(), rows(8, 1), rows(5, 2)
        cross_entropy(model, batch).backward()
        assert transfer(model, cross_entropy, None, target) == pytest.approx(
            transfer(model, cross_entropy, batch, target), rel=1e-5
        )
        by_grad = Transfer(model)(target_batch=target)
        slopes = torch.autograd.grad(goodness(model, target), list(model.parameters()))
        length = sum(one.square().sum() for one in slopes).sqrt()
        expected = -sum((one * p.grad).sum() for one, p in zip(slopes, model.parameters(), strict=True)) / length
        assert by_grad == pytest.approx(expected.item(), rel=1e-5)
        assert alignment(model, None, None, target) == pytest.approx(alignment(model, None, batch, target), rel=1e-5)

    @pytest.mark.parametrize("name", WAYS)
    def test_the_targets_own_rows_align_and_wrong_labels_do_not(self, name):
        model, target = small(), rows(30, 2)
        wrong = (target[0], (target[1] + 1) % 3)
        way = WAYS[name][0]
        assert way(model, None, target, target) > 0
        assert way(model, None, wrong, target) < 0.5 * way(model, None, target, target)
        assert transfer(model, None, wrong, target) < 0
        assert alignment(model, None, target, target) == pytest.approx(1.0)

    def test_places_labelled_minus_100_do_not_count(self):
        model, batch, target = small(), rows(8, 1), rows(5, 2)
        padded = (torch.cat([target[0], torch.ones(3, 4)]), torch.cat([target[1], torch.full((3,), -100)]))
        assert transfer(model, None, batch, padded) == pytest.approx(transfer(model, None, batch, target))
        sequences = (batch[0].reshape(2, 4, 4), batch[1].reshape(2, 4))
        assert transfer(model, None, sequences, target) == pytest.approx(transfer(model, None, batch, target))


class TestParameters:
    def test_a_part_by_name_by_prefix_or_as_parameters(self):
        model, batch, target = small(), rows(8, 1), rows(5, 2)
        last = transfer(model, None, batch, target, parameters="2")
        assert last == transfer(model, None, batch, target, parameters=["2.weight", "2.bias"])
        assert last == transfer(model, None, batch, target, parameters=model[2].parameters())
        assert last != transfer(model, None, batch, target)

    def test_lora_is_found_wherever_it_is_and_what_is_frozen_is_left_out(self):
        model = nn.ModuleDict({"block": nn.ModuleDict({"base": nn.Linear(2, 2), "lora_A": nn.Linear(2, 1)})})
        assert len(selected(model, "lora_")) == 2
        model["block"]["base"].requires_grad_(False)
        assert len(selected(model, None)) == 2
        with pytest.raises(ConfigError, match="no trainable parameter has a name with 'base'"):
            selected(model, "base")

    def test_a_part_costs_no_gradient_of_the_rest(self):
        model, batch, target = small(), rows(8, 1), rows(5, 2)
        seen = []
        model[0].register_full_backward_hook(lambda *_: seen.append(1))
        transfer(model, None, batch, target, parameters="2")
        assert not seen


class TestKept:
    def test_the_targets_gradient_is_computed_every_k_steps(self):
        model, batch, target = small(), rows(8, 1), rows(5, 2)
        calls = []

        def measure(model, rows):
            calls.append(len(rows[1]))
            return model(rows[0]), rows[1]

        reward = Transfer(model, measure)
        for _ in range(9):
            reward(batch, target)
        assert calls.count(5) == 3
        assert calls.count(8) == 9

    def test_kept_it_is_that_of_the_weights_then(self):
        model, batch, target = small(), rows(8, 1), rows(5, 2)
        reward = Transfer(model, every=2)
        reward(batch, target)
        before = copy.deepcopy(model)
        with torch.no_grad():
            model[2].weight.add_(0.5)
        late = reward(batch)
        slope = torch.autograd.grad(goodness(before, target), list(before.parameters()))
        mine = torch.autograd.grad(goodness(model, batch), list(model.parameters()))
        length = sum(one.square().sum() for one in slope).sqrt()
        expected = sum((one * other).sum() for one, other in zip(slope, mine, strict=True)) / length
        assert late == pytest.approx(expected.item(), rel=1e-5)
        with pytest.raises(ConfigError, match="the target's gradient is due; give target_batch"):
            reward(batch)


class TestState:
    @pytest.mark.parametrize("kind", [Transfer, Alignment])
    @pytest.mark.parametrize("stop", range(5))
    def test_rewards_go_on_bit_for_bit_from_wherever_it_was_stored(self, kind, stop, tmp_path):
        """Weights change at every step, so that a gradient computed anew would show."""

        def rewards_from(reward, model, steps):
            found = []
            for step in steps:
                found.append(reward(rows(8, step), rows(5, 100 + step)))
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter += 0.1
            return found

        whole, model = small(), small()
        expected = rewards_from(kind(whole), whole, range(9))
        first = kind(model)
        begun = rewards_from(first, model, range(stop))
        torch.save(first.state_dict(), tmp_path / "reward.pt")
        second = kind(model)
        second.load_state_dict(torch.load(tmp_path / "reward.pt", weights_only=True))
        assert begun + rewards_from(second, model, range(stop, 9)) == expected

    @pytest.mark.parametrize(
        ("stored", "message"),
        [
            (None, "not a state from state_dict"),
            ({"every": 4, "age": 0}, "not a state from state_dict"),
            ({"every": 4, "age": 1, "slope": [1, 2]}, "not a state from state_dict"),
            (
                {"every": 4, "age": 1, "slope": [None, None, None, torch.ones(2, dtype=bool)]},
                "not a state from state_dict",
            ),
            ({"every": 8, "age": 0, "slope": []}, "for 8 steps, but this reward keeps it for 4"),
            ({"every": 4, "age": 4, "slope": []}, "not a state from state_dict"),
            # Refused at once, not after a search that takes years.
            ({"every": 2**62, "age": 0.5, "slope": []}, "not a state from state_dict"),
            ({"every": 4, "age": 1, "slope": []}, "belongs to other parameters"),
            ({"every": 4, "age": 1, "slope": [None, None, None, torch.zeros(2)]}, "belongs to other parameters"),
        ],
    )
    def test_one_that_does_not_fit_is_one_line_and_changes_nothing(self, stored, message):
        reward = Transfer(small(), every=4)
        reward(rows(8), rows(5, 1))
        before = reward.state_dict()
        with pytest.raises(ConfigError, match=message):
            reward.load_state_dict(stored)
        assert reward.state_dict() == before


class TestUndisturbed:
    """A training run with rewards measured in between is, bit for bit, the run without."""

    def train(self, measure, accumulate=1, autocast=False, scaled=False, train=False):
        model = restless()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=64.0)
        reward = Transfer(model, every=2, train=train)
        for step in range(4):
            for part in range(accumulate):
                batch = rows(8, 10 * step + part)
                with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                    loss = cross_entropy(model, batch) / accumulate
                    if measure:
                        assert np.isfinite(reward(batch, rows(5, 99)))
                scaler.scale(loss).backward()
                if measure:
                    assert np.isfinite(reward(target_batch=rows(5, 99), scale=scaler.get_scale()))
            scaler.step(optimiser)
            scaler.update()
            optimiser.zero_grad()
        return {**model.state_dict(), "chance": torch.rand(3)}, [module.training for module in model.modules()]

    @pytest.mark.parametrize(
        "settings", [{}, {"accumulate": 3}, {"autocast": True}, {"scaled": True}, {"train": True}], ids=str
    )
    def test_weights_buffers_modes_and_chance_are_the_same(self, settings):
        quiet, modes = self.train(False, **settings)
        measured, other_modes = self.train(True, **settings)
        assert modes == other_modes
        for name, value in quiet.items():
            assert torch.equal(value, measured[name]), name

    def test_grad_is_not_touched_and_scale_is_taken_out(self):
        model, batch, target = small(), rows(8, 1), rows(5, 2)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(cross_entropy(model, batch)).backward()
        before = [parameter.grad.clone() for parameter in model.parameters()]
        reward = Transfer(model)(target_batch=target, scale=scaler.get_scale())
        transfer(model, None, batch, target)
        assert all(torch.equal(one, parameter.grad) for one, parameter in zip(before, model.parameters(), strict=True))
        plain = small()
        cross_entropy(plain, batch).backward()
        assert reward == pytest.approx(Transfer(plain)(target_batch=target), rel=1e-5)
        cosine = Alignment(plain)(target_batch=target)
        assert Alignment(model)(target_batch=target, scale=scaler.get_scale()) == pytest.approx(cosine, rel=1e-5)

    def test_modes_come_back_after_an_error(self):
        model = restless()
        model[2].eval()
        with pytest.raises(RuntimeError):
            transfer(model, None, (torch.zeros(2, 9), torch.zeros(2, dtype=torch.int64)), rows(5))
        assert model[1].training
        assert not model[2].training

    def test_an_overflow_is_not_finite_and_can_be_forgotten(self):
        model, target = small(), rows(5, 2)
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, torch.inf)
        reward = Transfer(model)(target_batch=target)
        assert not np.isfinite(reward)
        chooser = ms.Chooser("ucb", 2)
        draw = chooser.ask()
        with pytest.raises(ConfigError, match="the reward is"):
            chooser.tell(draw, reward)
        chooser.forget(draw)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_batch": rows(0)}, "the target has no labelled row"),
        ({"batch": None}, "no parameter has a gradient; call backward"),
        (
            {"batch": (torch.zeros(2, 4), torch.zeros(3, dtype=torch.int64))},
            "the batch has logits \\(2, 3\\) for labels",
        ),
        ({"loss_or_logits": lambda model, rows: model(rows[0])}, "loss has shape \\(5, 3\\); return one number"),
        ({"loss_or_logits": lambda model, rows: cross_entropy(model, rows).detach()}, "have no gradient"),
        ({"parameters": "3"}, "no trainable parameter has a name with '3': 0.weight, 0.bias"),
        ({"parameters": []}, "none of these parameters is trainable"),
    ],
)
def test_what_cannot_be_measured_is_one_line(change, message):
    arguments = {"loss_or_logits": None, "batch": rows(8, 1), "target_batch": rows(5, 2), "parameters": None}
    with pytest.raises(ConfigError, match=message):
        transfer(small(), **{**arguments, **change})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnAnAccelerator:
    @pytest.mark.parametrize("name", WAYS)
    def test_is_the_cpus_reward(self, name):
        model, batch, target = small(dtype=torch.float64), rows(8, 1, torch.float64), rows(5, 2, torch.float64)
        there = [tuple(part.cuda() for part in pair) for pair in (batch, target)]
        expected = WAYS[name][0](model, None, batch, target)
        assert WAYS[name][0](model.cuda(), None, *there) == pytest.approx(expected, rel=1e-9)

    def test_float16_with_a_scaler_goes_on_as_if_nothing_had_been_measured(self):
        """The first scale overflows on purpose: that reward is NaN and the scaler skips the step, as without us."""

        def trained(measures):
            torch.manual_seed(0)
            model = restless().cuda()
            optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
            reward, told = Transfer(model, every=1), []
            target = tuple(part.cuda() for part in rows(5, 2))
            for step in range(40):
                inputs, labels = (part.cuda() for part in rows(8, step))
                with torch.autocast("cuda", torch.float16):
                    loss = nn.functional.cross_entropy(model(inputs), labels)
                scaler.scale(loss).backward()
                if measures:
                    told.append(reward(target_batch=target, scale=scaler.get_scale()))
                scaler.step(optimiser)
                scaler.update()
                optimiser.zero_grad()
            return torch.cat([part.flatten() for part in model.state_dict().values()]).cpu(), told

        (measured, told), (quiet, _) = trained(True), trained(False)
        assert torch.equal(measured, quiet)
        assert not np.isfinite(told[0])
        assert np.isfinite(told[-1])
