"""Rewards of rows: equal to gradients of single rows, and nothing of the training is disturbed."""

import copy
import gc
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import metasched as ms
from helpers import as_float64, make_tasks
from metasched.errors import ConfigError
from metasched.learners import joint, rewards
from metasched.learners.losses import Rows, objective_of
from metasched.learners.networks import mlp

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset  # noqa: E402

from metasched.torch import BatchSampler, RowTransfer, Teller  # noqa: E402
from metasched.torch import step_sizes as adam  # noqa: E402

WIDTH, CLASSES, LENGTH, WORDS = 8, 3, 6, 11


class Attention(nn.Module):
    """One head, as a language model has it."""

    def __init__(self):
        super().__init__()
        self.parts, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, inputs):
        query, key, value = self.parts(inputs).chunk(3, dim=-1)
        seen = (query @ key.transpose(-1, -2)).tril().softmax(-1)
        return self.back(seen @ value)


class Transformer(nn.Module):
    """Words (n, length) to logits of the next word; the last layer shares its weights with the first."""

    def __init__(self, tied=False, checkpointed=None):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.first, self.attention, self.then = nn.LayerNorm(WIDTH), Attention(), nn.RMSNorm(WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.checkpointed = checkpointed
        if tied:
            self.head.weight = self.words.weight

    def block(self, known):
        known = known + self.attention(self.first(known))
        return known + self.perceptron(self.then(known))

    def forward(self, words):
        known = self.words(words)
        if self.checkpointed is None or not self.training:
            known = self.block(known)
        else:
            known = checkpoint(self.block, known, use_reentrant=self.checkpointed)
        return self.head(known)


def classifier():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, CLASSES))


def images(norm):
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"),
        norm(4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, 3, stride=2, padding="valid", groups=2),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(4 * 4, CLASSES),
    )


def lines():
    return nn.Sequential(nn.Conv1d(2, 4, 3, dilation=2), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, CLASSES))


def rows(count, seed=0, shape=(4,), dtype=torch.float64):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, *shape, generator=random, dtype=dtype), torch.randint(CLASSES, (count,), generator=random)


def texts(count, seed=0, length=LENGTH):
    words = torch.randint(1, WORDS, (count, length + 1), generator=torch.Generator().manual_seed(seed))
    return words[:, :-1], words[:, 1:]


def seeded(make, *arguments, **options):
    torch.manual_seed(0)
    model = make(*arguments, **options).double()
    with torch.no_grad():  # normalisations start with weights of 1 and biases of 0, which hide errors
        for one in model.parameters():
            one.add_(0.1 * torch.randn_like(one))
    return model


def row_losses(model, batch):
    """(n,), or (n, length)."""
    outputs, labels = model(batch[0]), batch[1]
    return cross_entropy(outputs.movedim(-1, 1) if labels.dim() > 1 else outputs, labels, reduction="none")


def goodness_of_rows(model, batch, kind):
    losses = row_losses(model, batch)
    if losses.dim() > 1:
        counted = batch[1] != -100
        losses = losses.sum(1) / counted.sum(1)
    return torch.exp(-losses) if kind == "probability" else -losses


def target_goodness(model, target, kind):
    losses = row_losses(model, target)[target[1] != -100]
    return (torch.exp(-losses) if kind == "probability" else -losses).mean()


def by_functional_gradients(model, batch, target, kind, sizes=None):
    """The same from torch.func: the gradient of each row alone."""
    weights = {name: one.detach() for name, one in model.named_parameters()}

    def called(weights, words):
        return torch.func.functional_call(model, weights, (words,))

    def of_row(weights, inputs, label):
        return goodness_of_rows(lambda one: called(weights, one), (inputs[None], label[None]), kind)[0]

    each = torch.func.vmap(torch.func.grad(of_row), in_dims=(None, 0, 0))(weights, *batch)
    slope = torch.func.grad(lambda weights: target_goodness(lambda one: called(weights, one), target, kind))(weights)
    if sizes is not None:
        slope = {name: slope[name] * sizes[name] for name in slope}
    length = sum(one.square().sum() for one in slope.values()).sqrt()
    return sum((each[name] * slope[name]).flatten(1).sum(1) for name in slope) / length


def measured(model, batch, target, kind="probability", total=torch.mean, **options):
    """Rewards from one backward pass."""
    reward = RowTransfer(model, target, kind=kind, every=1, **options)
    with reward.watch():
        losses = reward.rows(row_losses(model, batch), labels=batch[1])
        total(losses).backward()
    return reward.rewards()


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))


MODELS = {
    "mlp": (lambda: seeded(classifier), (4,)),
    "cnn, group norm": (lambda: seeded(images, lambda channels: nn.GroupNorm(2, channels)), (2, 6, 6)),
    "cnn, batch norm": (lambda: seeded(images, nn.BatchNorm2d).eval(), (2, 6, 6)),
    "lines": (lambda: seeded(lines), (2, 8)),
}


class TestExact:
    @pytest.mark.parametrize("kind", ["probability", "loss"])
    @pytest.mark.parametrize("name", MODELS)
    def test_rows_of_classification(self, name, kind):
        make, shape = MODELS[name]
        model, batch, target = make(), rows(7, 1, shape), rows(5, 2, shape)
        close(measured(model, batch, target, kind), by_functional_gradients(model, batch, target, kind))

    @pytest.mark.parametrize("tied", [False, True], ids=["", "tied"])
    @pytest.mark.parametrize("kind", ["probability", "loss"])
    def test_rows_of_a_transformer(self, kind, tied):
        model, batch, target = seeded(Transformer, tied=tied), texts(7, 1), texts(3, 2)
        if tied:  # functional_call would take the shared weights for two
            kept, expected = list(model.parameters()), []
            slope = torch.autograd.grad(target_goodness(model, target, kind), kept)
            length = sum(one.square().sum() for one in slope).sqrt()
            for number in range(7):
                own = torch.autograd.grad(
                    goodness_of_rows(model, [part[number : number + 1] for part in batch], kind).sum(), kept
                )
                expected.append(sum((one * other).sum() for one, other in zip(own, slope, strict=True)) / length)
            expected = torch.stack(expected)
        else:
            expected = by_functional_gradients(model, batch, target, kind)
        close(measured(model, batch, target, kind), expected)

    def test_batch_norm_in_training_mode_shares_out_the_inner_product_of_the_batch(self):
        """There a row's loss depends on all rows, and no row has a gradient of its own."""
        model, batch, target = seeded(images, nn.BatchNorm2d), rows(7, 1, (2, 6, 6)), rows(5, 2, (2, 6, 6))
        judged = copy.deepcopy(model).eval()
        slope = torch.autograd.grad(target_goodness(judged, target, "loss"), list(judged.parameters()))
        found = measured(model, batch, target, "loss")
        length = sum(one.square().sum() for one in slope).sqrt()
        whole = -sum((one.grad * other).sum() for one, other in zip(model.parameters(), slope, strict=True)) / length
        assert float(found.mean()) == pytest.approx(float(whole), rel=1e-9)

    @pytest.mark.parametrize("steps", [0, 3, 9])
    def test_along_the_step_that_adam_makes(self, steps):
        model, batch, target = seeded(classifier), rows(7, 1), rows(5, 2)
        optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
        for step in range(steps):
            row_losses(model, rows(7, 10 + step)).mean().backward()
            optimiser.step()
            optimiser.zero_grad()
        sizes = None
        if steps > 5:  # before, the mean squares are of too few gradients
            sizes = {
                name: 1 / ((optimiser.state[one]["exp_avg_sq"] / (1 - 0.999**steps)).sqrt() + 1e-5)
                for name, one in model.named_parameters()
            }
        expected = by_functional_gradients(model, batch, target, "probability", sizes)
        close(measured(model, batch, target, optimiser=optimiser), expected)

    @pytest.mark.usefixtures("_float64")
    @pytest.mark.parametrize("name", ["transfer", "adam_transfer"])
    def test_agrees_with_our_jax_reward_of_rows(self, name):
        tasks, network = make_tasks(), mlp(3, (6, 5))
        objective = objective_of(tasks, network, ms.Joint(batch_size=4).resolve(tasks))
        weights = as_float64(network.init(jax.random.key(1), jnp.zeros((1, 4))))
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
        with torch.no_grad():
            for layer, own in zip(model[::2], weights, strict=True):
                layer.weight.copy_(torch.tensor(np.array(own["w"]).T))
                layer.bias.copy_(torch.tensor(np.array(own["b"])))
        optimiser, sizes = torch.optim.Adam(model.parameters()), None
        if name == "adam_transfer":
            for one in model.parameters():
                squares = torch.rand(one.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
                optimiser.state[one] = {"exp_avg_sq": squares, "step": torch.tensor(7.0)}
            squares = [
                {"w": jnp.array(optimiser.state[layer.weight]["exp_avg_sq"].T.numpy())}
                | {"b": jnp.array(optimiser.state[layer.bias]["exp_avg_sq"].numpy())}
                for layer in model[::2]
            ]
            state = optax.ScaleByAdamState(jnp.int32(7), weights, joint.Parameters(type(weights)(squares)))
            sizes = joint.step_sizes((state,), joint.Parameters(weights))
            assert sizes is not None

        def both(split, count):
            inputs, labels = np.asarray(split.inputs[:count], np.float64), np.asarray(split.labels[:count])
            ours = Rows(jnp.asarray(inputs), jnp.asarray(labels, jnp.int32))
            return ours, (torch.tensor(inputs), torch.tensor(labels, dtype=torch.int64))

        (batch, own_batch), (target, own_target) = both(tasks.tasks[1], 7), both(tasks.validation, 10)
        turn = dict.fromkeys(rewards.Turn._fields) | {
            "before": weights,
            "batch": batch,
            "head": jnp.zeros(7, jnp.int32),
            "trains": jnp.ones(7, bool),
            "target": target,
            "slope": rewards.target_slope(objective, weights, target),
            "step_sizes": sizes,
        }
        expected = torch.tensor(np.array(rewards.find(name)(objective, rewards.Turn(**turn))))
        close(measured(model, own_batch, own_target, optimiser=optimiser), expected, 1e-6)

    def test_constants_are_those_of_the_reward_of_runs(self):
        assert (adam.FIRST_STEPS, adam.EPSILON) == (joint.FIRST_STEPS, joint.EPSILON)


WAYS = {
    "mean of all tokens": lambda losses: losses.sum() / (losses != 0).sum(),
    "sum": lambda losses: losses.sum(),
    "scaled and divided": lambda losses: 1024.0 * losses.sum() / 300,
    "mean of rows": lambda losses: (losses.sum(1) / (losses != 0).sum(1)).mean(),
}


class TestSequences:
    def padded(self):
        words, following = texts(6, 1)
        words, following = words.clone(), following.clone()
        for row, end in enumerate((6, 4, 2, 5, 1, 3)):
            following[row, end:] = -100
            words[row, end:] = 0
        return words, following

    @pytest.mark.parametrize("way", WAYS)
    def test_a_row_is_the_mean_of_its_own_tokens_however_the_loss_is_put_together(self, way):
        model, batch, target = seeded(Transformer), self.padded(), texts(3, 2)
        expected = by_functional_gradients(model, batch, target, "probability")
        close(measured(model, batch, target, total=WAYS[way]), expected)

    def test_losses_of_rows_do_as_well_as_those_of_tokens(self):
        model, batch, target = seeded(Transformer), self.padded(), texts(3, 2)
        reward = RowTransfer(model, target, every=1)
        weights = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 0.0])
        with reward.watch():
            losses = row_losses(model, batch).sum(1) / (batch[1] != -100).sum(1)
            (reward.rows(losses) * weights).sum().backward()
        expected = by_functional_gradients(model, batch, target, "probability")
        expected[5] = 0  # the loss of this row was multiplied by 0, so that nothing of it was computed
        close(reward.rewards(), expected)

    def test_labels_do_where_the_model_only_tells_the_mean_loss(self):
        model, batch, target = seeded(Transformer), self.padded(), texts(3, 2)
        reward = RowTransfer(model, target, kind="loss", every=1)
        with reward.watch():
            reward.rows(labels=batch[1], scale=0.5)
            (0.5 * row_losses(model, batch)[batch[1] != -100].mean()).backward()
        close(reward.rewards(), by_functional_gradients(model, batch, target, "loss"))

    def test_packed_segments_have_the_rewards_of_rows_of_their_own(self):
        """Without attention the places of a row know nothing of each other, as segments under a mask do."""
        model, target = seeded(Transformer), texts(3, 2)
        model.attention = nn.Identity()
        words, following = texts(3, 1)
        following = following.clone()
        following[2, 4:] = -100
        segments = torch.tensor([[0, 0, 0, 0, 1, 1], [2, 3, 3, 3, 3, 3], [4, 4, 4, 4, -1, -1]])
        apart = [
            measured(model, (words[row : row + 1, own], following[row : row + 1, own]), target)
            for row, own in ((0, slice(4)), (0, slice(4, 6)), (1, slice(1)), (1, slice(1, 6)), (2, slice(4)))
        ]
        for number in (None, 5):
            reward = RowTransfer(model, target, every=1)
            with reward.watch():
                losses = row_losses(model, (words, following))
                reward.rows(losses, labels=following, segments=segments, number=number).sum().backward()
            close(reward.rewards(), torch.cat(apart))


class TestLayers:
    def test_a_part_by_name_and_the_last_layer(self):
        model, batch, target = seeded(classifier), rows(7, 1), rows(5, 2)
        last = measured(model, batch, target, layers="last")
        close(measured(model, batch, target, layers=["2"]), last)
        frozen = copy.deepcopy(model)
        frozen[0].requires_grad_(False)
        close(measured(frozen, batch, target), last)
        assert not torch.allclose(measured(model, batch, target), last)

    def test_biases_alone(self):
        model, batch, target = seeded(images, lambda channels: nn.GroupNorm(2, channels)), rows(7, 1, (2, 6, 6)), None
        target = rows(5, 2, (2, 6, 6))
        weights = {name: one.detach() for name, one in model.named_parameters() if name.endswith("weight")}
        biases = {name: one.detach() for name, one in model.named_parameters() if name.endswith("bias")}

        def goodness(biases, inputs, label):
            outputs = torch.func.functional_call(model, weights | biases, (inputs[None],))
            return -cross_entropy(outputs, label[None])

        each = torch.func.vmap(torch.func.grad(goodness), in_dims=(None, 0, 0))
        mine, slope = each(biases, *batch), {name: one.mean(0) for name, one in each(biases, *target).items()}
        length = sum(one.square().sum() for one in slope.values()).sqrt()
        expected = sum((mine[name] * slope[name]).flatten(1).sum(1) for name in slope) / length
        close(measured(model, batch, target, "loss", layers=[*biases]), expected)

    def test_what_has_no_reward_of_rows_is_left_out_and_named_once(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
                self.shift, self.unused = nn.Parameter(torch.zeros(WIDTH)), nn.Linear(3, 3)
                self.head = nn.Linear(WIDTH, WORDS)

            def forward(self, words):
                return self.head(self.words(words) + self.places(torch.arange(LENGTH)) + self.shift)

        model, target = seeded(Odd), texts(LENGTH, 2)
        for count in (LENGTH, 4):  # with as many places as rows, too
            batch = texts(count, 1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                reward = RowTransfer(model, target, every=1)
                for _ in range(3):
                    with reward.watch():
                        reward.rows(row_losses(model, batch)).mean().backward()
            said = [str(one.message) for one in caught]
            assert len(said) == 2
            assert "leave out shift: they do not belong to a linear" in said[0]
            assert "leave out places.weight, unused.weight, unused.bias: their layers do not run" in said[1]
            kept = [model.words.weight, model.head.weight, model.head.bias]
            slope = torch.autograd.grad(target_goodness(model, target, "probability"), kept)
            length = sum(one.square().sum() for one in slope).sqrt()
            for number, found in enumerate(reward.rewards()):
                own = [part[number : number + 1] for part in batch]
                mine = torch.autograd.grad(goodness_of_rows(model, own, "probability").sum(), kept)
                expected = sum((one * other).sum() for one, other in zip(mine, slope, strict=True)) / length
                assert float(found) == pytest.approx(float(expected), rel=1e-9)

    def test_a_parameter_that_an_unknown_layer_shares_is_left_out(self):
        class Loud(nn.Embedding):
            def forward(self, words):
                return 3 * super().forward(words)

        model = seeded(Transformer, tied=True)
        model.words = Loud(WORDS, WIDTH, dtype=torch.float64)
        model.words.weight = model.head.weight
        with pytest.warns(UserWarning, match="leave out words.weight: they do not belong to a linear"):
            RowTransfer(model)

    @pytest.mark.parametrize("name", ["GPT2", "Llama", "Gemma3Text"])
    def test_language_models_of_hugging_face(self, name):
        transformers = pytest.importorskip("transformers")
        torch.manual_seed(0)
        size = {"vocab_size": 11, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2}
        more = {"GPT2": {"n_positions": 8, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}}
        wide = {"intermediate_size": 12, "num_key_value_heads": 1, "head_dim": 4}
        config = getattr(transformers, f"{name}Config")(
            **size, **more.get(name, wide), bos_token_id=0, eos_token_id=0, pad_token_id=0
        )
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").double()
        words, target = texts(5, 1)[0], texts(3, 2)[0]

        def loss(model, words):
            return model(input_ids=words, labels=words).loss

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            reward = RowTransfer(model, target, loss, kind="loss", every=1)
            with reward.watch():
                reward.rows(labels=words[:, 1:])
                loss(model, words).backward()
        left_out = ["transformer.wpe.weight"] if name == "GPT2" else []
        assert [one for one in left_out if one not in str(caught[0].message)] == []
        assert len([one for one in caught if "rewards of rows" in str(one.message)]) == len(left_out)
        kept = [one for name, one in model.named_parameters() if name not in left_out]
        slope = torch.autograd.grad(loss(model, target), kept)
        length = sum(one.square().sum() for one in slope).sqrt()
        expected = []
        for number in range(5):
            mine = torch.autograd.grad(loss(model, words[number : number + 1]), kept)
            expected.append(sum((one * other).sum() for one, other in zip(mine, slope, strict=True)) / length)
        close(reward.rewards(), torch.stack(expected), 1e-6)  # they compute the loss in float32


class Restless(nn.Module):
    """Everything that a careless measurement would disturb."""

    def __init__(self, checkpointed=None):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.ReLU(inplace=True))
        self.then, self.checkpointed = nn.Linear(6, CLASSES), checkpointed

    def forward(self, inputs):
        if self.checkpointed is None or not self.training:
            return self.then(self.first(inputs))
        return self.then(checkpoint(self.first, inputs, use_reentrant=self.checkpointed))


class TestUndisturbed:
    def train(self, measure, checkpointed=None, accumulate=1, autocast=None, scaled=False, train=False):
        """Weights, buffers, gradients, modes, random numbers, and the rewards."""
        torch.manual_seed(0)
        model = Restless(checkpointed)
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=64.0)
        target = rows(5, 99, dtype=torch.float32)
        reward = RowTransfer(model, target, optimiser=optimiser, every=2, refresh=3, train=train)
        found = []
        for step in range(10):
            for part in range(accumulate):
                inputs, labels = rows(8, 10 * step + part, dtype=torch.float32)
                with reward.watch(None if measure else False):
                    with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
                        inputs.requires_grad_(checkpointed is True)
                        losses = reward.rows(cross_entropy(model(inputs), labels, reduction="none"))
                    scaler.scale(losses.mean() / accumulate).backward()
                found.append(reward.rewards())
            gradients = {f"{name}.grad": one.grad.clone() for name, one in model.named_parameters()}
            scaler.step(optimiser)
            scaler.update()
            optimiser.zero_grad()
        left = {**model.state_dict(), **gradients, "chance": torch.rand(3)}
        return left, [module.training for module in model.modules()], found

    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"accumulate": 3},
            {"autocast": torch.bfloat16},
            {"autocast": torch.float16, "scaled": True},
            {"train": True},
            {"checkpointed": True},
            {"checkpointed": False},
            {"checkpointed": False, "autocast": torch.bfloat16},
        ],
        ids=str,
    )
    def test_weights_gradients_buffers_modes_and_chance_are_the_same(self, settings):
        quiet, modes, none = self.train(False, **settings)
        left, other_modes, found = self.train(True, **settings)
        assert modes == other_modes
        for name, value in quiet.items():
            assert torch.equal(value, left[name]), name
        assert none == [None] * len(none)
        assert [one is None for one in found[:4]] == [False, True, False, True]
        assert all(bool(one.isfinite().all()) for one in found if one is not None)

    @pytest.mark.parametrize("checkpointed", [True, False])
    def test_under_a_checkpoint_rewards_are_the_same(self, checkpointed):
        model, batch, target = seeded(Transformer, checkpointed=checkpointed), texts(7, 1), texts(3, 2)
        expected = measured(seeded(Transformer), batch, target)
        close(measured(model, batch, target), expected)

    def test_a_checkpoint_is_not_held(self):
        """What goes into a layer is made again for the reward as for the layer itself."""
        made = []
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, CLASSES)).double()
        model[2].register_forward_pre_hook(lambda layer, given: made.append(weakref.ref(given[0])))
        batch = rows(7, 1)
        reward = RowTransfer(model, rows(5, 2), every=1)
        reward.aim(rows(5, 2))
        made.clear()
        with reward.watch():
            outputs = checkpoint(model, batch[0], use_reentrant=False)
            gc.collect()
            assert made[0]() is None
            reward.rows(cross_entropy(outputs, batch[1], reduction="none")).mean().backward()
        close(reward.rewards(), measured(copy.deepcopy(model), batch, rows(5, 2)))

    def test_the_scale_and_the_number_of_parts_of_a_step_make_no_difference(self):
        _, _, expected = self.train(True)
        _, _, scaled = self.train(True, scaled=True)
        for one, other in zip(scaled, expected, strict=True):
            assert one is other is None or torch.allclose(one, other, rtol=1e-3, atol=1e-5)

    def test_in_bfloat16_they_are_nearly_those_of_float32(self):
        model, target = seeded(Transformer).float(), texts(8, 2)
        batch = texts(16, 1)
        expected = measured(model, batch, target, "loss")
        with torch.autocast("cpu", torch.bfloat16):
            found = measured(model, batch, target, "loss")
        assert float((found - expected).norm() / expected.norm()) < 0.05

    def test_hooks_are_gone_after_an_error_and_nothing_is_counted(self):
        model, target = seeded(classifier), rows(5, 2)
        reward = RowTransfer(model, target)
        with pytest.raises(RuntimeError), reward.watch():
            model(torch.zeros(2, 9, dtype=torch.float64))
        assert not any(layer._forward_hooks for layer in model)
        assert reward.state_dict()["calls"] == 0

    def test_evaluation_and_what_is_outside_do_not_count(self):
        model, batch, target = seeded(classifier), rows(7, 1), rows(5, 2)
        reward = RowTransfer(model, target, every=1)
        row_losses(model, rows(7, 3)).mean().backward()
        with reward.watch():
            losses = reward.rows(row_losses(model, batch))
            with torch.no_grad():
                model(rows(4, 5)[0])
            losses.mean().backward()
        row_losses(model, rows(7, 4)).mean().backward()
        close(reward.rewards(), by_functional_gradients(model, batch, target, "probability"))


class TestState:
    @pytest.mark.parametrize("stop", range(6))
    def test_rewards_go_on_bit_for_bit_from_wherever_it_was_stored(self, stop, tmp_path):
        """Weights change at every step, so that a gradient computed anew would show."""

        def run(reward, model, steps):
            found = []
            for step in steps:
                with reward.watch():
                    reward.rows(row_losses(model, rows(7, step))).mean().backward()
                found.append(reward.rewards())
                with torch.no_grad():
                    for one in model.parameters():
                        one += 0.1
            return found

        def made(model):
            return RowTransfer(model, rows(5, 2), every=2, refresh=3)

        whole, model = seeded(classifier), seeded(classifier)
        expected = run(made(whole), whole, range(9))
        first = made(model)
        begun = run(first, model, range(stop))
        torch.save(first.state_dict(), tmp_path / "reward.pt")
        second = made(model)
        second.load_state_dict(torch.load(tmp_path / "reward.pt", weights_only=True))
        found = begun + run(second, model, range(stop, 9))
        assert all(one is other is None or torch.equal(one, other) for one, other in zip(found, expected, strict=True))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (None, "not a state from state_dict"),
            ({"every": 4}, "the state has every=4 and refresh=16, this one every=8"),
            ({"aimed": "now"}, "not a state from state_dict"),
            ({"directions": {"0.weight": torch.zeros(2, dtype=bool)}}, "not a state from state_dict"),
            ({"directions": {"3.weight": torch.zeros(2)}}, "belongs to other parameters"),
            ({"directions": {"0.weight": torch.zeros(2)}}, "belongs to other parameters"),
        ],
    )
    def test_one_that_does_not_fit_is_one_line_and_changes_nothing(self, change, message):
        reward = RowTransfer(seeded(classifier))
        reward.aim(rows(5, 1))
        before = reward.state_dict()
        with pytest.raises(ConfigError, match=message):
            reward.load_state_dict(None if change is None else before | change)
        assert reward.state_dict() == before


class TestSteps:
    def test_every_and_refresh_and_where_target_rows_come_from(self):
        asked, model = [], seeded(classifier)

        def target():
            asked.append(reward.state_dict()["calls"])
            return rows(5, len(asked))

        reward = RowTransfer(model, target, every=2, refresh=3)
        for step in range(9):
            with reward.watch() as due:
                assert due == (step % 2 == 0)
                reward.rows(row_losses(model, rows(7))).mean().backward()
            assert (reward.rewards() is None) == (not due)
        assert asked == [0, 4, 8]

    def test_an_iterator_of_target_rows_goes_on_until_it_ends(self):
        model, batch = seeded(classifier), rows(7, 1)
        reward = RowTransfer(model, iter([rows(5, 2), rows(5, 3)]), every=1, refresh=1)
        for seed in (2, 3):
            with reward.watch():
                reward.rows(row_losses(model, batch)).mean().backward()
            close(reward.rewards(), by_functional_gradients(model, batch, rows(5, seed), "probability"))
        with pytest.raises(ConfigError, match="target has no more batches"), reward.watch():
            pass

    def test_a_compiled_model_runs_uncompiled_where_it_is_measured(self):
        model, batch, target = seeded(classifier), rows(7, 1), rows(5, 2)
        compiled = torch.compile(model, backend="eager")
        reward = RowTransfer(compiled, target, every=2)
        found = []
        for _ in range(4):
            with reward.watch():
                reward.rows(row_losses(compiled, batch)).mean().backward()
            found.append(reward.rewards())
        expected = by_functional_gradients(model, batch, target, "probability")
        for one in found[::2]:
            close(one, expected)
        assert found[1] is found[3] is None


@pytest.mark.parametrize(
    ("options", "losses", "message"),
    [
        ({"target": None}, row_losses, "there is no gradient of the target yet"),
        ({"target": (rows(2)[0], rows(3)[1])}, row_losses, "the target has logits"),
        ({"loss_or_logits": lambda model, batch: model(batch[0])}, row_losses, "loss has shape \\(5, 3\\)"),
        ({"loss_or_logits": lambda model, batch: model(batch[0]).detach().sum()}, row_losses, "have no gradient"),
        ({"layers": "3"}, row_losses, "no trainable parameter has a name with '3'"),
        ({"kind": "cosine"}, row_losses, "unknown kind 'cosine'; known: loss, probability"),
        ({"every": 0}, row_losses, "every is 0"),
        ({"optimiser": "adam"}, row_losses, "optimiser is a str; give the model's PyTorch optimiser"),
        (
            {"optimiser": torch.optim.SGD(nn.Linear(1, 1).parameters())},
            row_losses,
            "the optimiser trains none of the parameters that count",
        ),
        ({"target": TensorDataset(*rows(5))}, row_losses, "rows of type TensorDataset are not a pair of tensors"),
        ({"target": rows(5)[0]}, row_losses, "rows of type Tensor are not a pair of tensors"),
        ({"target": (rows(5)[0], torch.full((5,), -100))}, row_losses, "the target has no labelled row"),
        ({}, lambda model, batch: row_losses(model, batch).mean(), "the losses have shape \\(\\)"),
        ({}, lambda model, batch: row_losses(model, batch).detach(), "the losses of the rows have no gradient"),
        ({}, lambda model, batch: None, "give the losses of the rows; only kind='loss'"),
    ],
)
def test_what_cannot_be_measured_is_one_line(options, losses, message):
    model = seeded(classifier)

    def measure():
        reward = RowTransfer(model, **{"target": rows(5, 2), "every": 1, **options})
        with reward.watch():
            reward.rows(losses(model, rows(7, 1)))

    with pytest.raises(ConfigError, match=message):
        measure()


def test_a_loop_that_leaves_something_out_is_told_what():
    model, batch = seeded(classifier), rows(7, 1)
    reward = RowTransfer(model, rows(5, 2), every=1)
    with reward.watch():
        row_losses(model, batch).mean().backward()
    with pytest.raises(ConfigError, match="rows\\(losses\\) was not called"):
        reward.rewards()
    with reward.watch():
        reward.rows(row_losses(model, batch))
    with pytest.raises(ConfigError, match="no layer took part in a backward pass inside watch"):
        reward.rewards()
    with reward.watch():
        losses = row_losses(model, batch)
        losses.mean().backward(retain_graph=True)
        reward.rows(losses)
    with pytest.raises(ConfigError, match="no layer took part in a backward pass inside watch"):
        reward.rewards()
    with pytest.raises(ConfigError, match="the model is a function; give a"):
        RowTransfer(row_losses)


def test_a_model_whose_rows_are_not_first_is_told_so():
    class TimeFirst(Transformer):
        def forward(self, words):
            return self.head(self.words(words.T)).transpose(0, 1)

    model, batch = seeded(TimeFirst), texts(4, 1)
    reward = RowTransfer(model, texts(3, 2), layers=["words", "head"], every=1)
    with reward.watch():
        reward.rows(row_losses(model, batch)).mean().backward()
    with pytest.raises(ConfigError, match=r"there are losses of 4 rows, but no layer has outputs .* \(6, 4, 11\)"):
        reward.rewards()


def test_parameters_spread_over_processes_are_refused():
    model = seeded(classifier)
    model[0].weight.ds_id = 0  # as DeepSpeed marks them
    with pytest.raises(ConfigError, match="are spread over processes"):
        RowTransfer(model)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnAnAccelerator:
    def test_rewards_are_the_processors_and_nothing_waits(self):
        model, batch, target = seeded(Transformer), texts(7, 1), texts(3, 2)
        expected = measured(copy.deepcopy(model), batch, target)
        there = copy.deepcopy(model).cuda()
        batch, target = ([part.cuda() for part in pair] for pair in (batch, target))
        optimiser = torch.optim.AdamW(there.parameters(), 0.0, weight_decay=0.0, fused=True)
        reward = RowTransfer(there, target, optimiser=optimiser, every=1, refresh=1)
        reward.aim(target)  # the first time it looks which layers run, and waits for that
        torch.cuda.set_sync_debug_mode("error")
        try:
            for step in range(8):
                with reward.watch():
                    reward.rows(row_losses(there, batch)).mean().backward()
                found = reward.rewards()
                if step == 0:
                    first = found
                optimiser.step()
                optimiser.zero_grad()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        close(first.cpu(), expected, 1e-6)
        assert bool(found.isfinite().all())
        assert not torch.allclose(found, first)  # by now along the steps of Adam


def drawn_from_digits(seed, steps=300):
    """Shares of the draws: a small network learns digits in which it is to know shifted ones, of which 40 have labels.

    Mirrored digits are wrong in a consistent way: the network never gets them all right.
    """
    from sklearn.datasets import load_digits

    inputs, labels = load_digits(return_X_y=True)
    random = torch.Generator().manual_seed(seed)
    inputs, labels = torch.tensor(inputs / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(labels)
    parts = torch.randperm(len(labels), generator=random).split(350)
    digits = dict(
        zip(("clean", "mirrored", "shuffled", "noisy"), ((inputs[one], labels[one]) for one in parts[:4]), strict=True)
    )
    digits["mirrored"] = digits["mirrored"][0].flip(3), digits["mirrored"][1]
    digits["shuffled"] = digits["shuffled"][0], digits["shuffled"][1][torch.randperm(350, generator=random)]
    digits["noisy"] = digits["noisy"][0] + 0.5 * torch.randn(350, 1, 8, 8, generator=random), digits["noisy"][1]
    target = inputs[parts[4][:40]].roll((1, 1), (2, 3)), labels[parts[4][:40]]
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Linear(512, 10)),
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = BatchSampler(ms.Chooser("thompson", dict.fromkeys(digits, 350), batch_size=20, seed=seed), batches=steps)
    loader = DataLoader(ConcatDataset([TensorDataset(*rows) for rows in digits.values()]), batch_sampler=sampler)
    reward, teller = RowTransfer(model, target, optimiser=optimiser, every=1, refresh=4), Teller(sampler)
    for draw, batch in sampler.credit(loader):
        with reward.watch():
            reward.rows(row_losses(model, batch)).mean().backward()
        teller.tell(draw, reward.rewards())
        row_losses(model, target).mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    return sampler.chooser.shares()


@pytest.mark.slow
def test_digits_that_stay_wrong_are_not_drawn():
    """The gradient of the cross-entropy alone gives the mirrored ones several times as many draws."""
    pytest.importorskip("sklearn")
    shares = [drawn_from_digits(seed) for seed in range(3)]
    mean = {name: sum(one[name] for one in shares) / 3 for name in shares[0]}
    assert max(mean, key=mean.get) == "clean"
    assert mean["mirrored"] < 0.2, mean
