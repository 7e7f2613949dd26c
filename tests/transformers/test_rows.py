"""Whose the tokens of a micro-batch are, and what its rows cost."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from metasched.transformers.rows import losses_of, outputs_of, tokens_of  # noqa: E402

LABELS = torch.tensor([[1, 2, 3, -100], [-100, -100, 0, 1], [-100, -100, -100, -100]])


def outputs(*shape, classes=5):
    return SimpleNamespace(logits=torch.randn(*shape, classes, generator=torch.manual_seed(0)))


@pytest.mark.parametrize("shifts", [False, True])
def test_the_loss_of_a_row_is_the_mean_over_its_labelled_tokens(shifts):
    given = outputs(3, 4)
    losses = losses_of(given, tokens_of({"labels": LABELS}, 3, shifts))
    for row in range(2):
        logits, labels = (given.logits[row, :-1], LABELS[row, 1:]) if shifts else (given.logits[row], LABELS[row])
        assert losses[row] == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item())
    assert losses[2].isnan()


def test_labels_that_are_shifted_already_are_taken_as_they_are():
    assert tokens_of({"labels": LABELS, "shift_labels": LABELS}, 3, True).labels is LABELS


def test_rows_in_one_sequence_cost_what_they_cost_alone():
    given = outputs(1, 9)
    labels = torch.tensor([[-100, 1, 2, -100, 4, 3, 2, -100, -100]])
    places = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 0, 0]])  # the last two are padding
    losses = losses_of(given, tokens_of({"labels": labels, "position_ids": places}, 2, True))
    expected = [
        torch.nn.functional.cross_entropy(given.logits[0, begin : end - 1], labels[0, begin + 1 : end]).item()
        for begin, end in ((0, 3), (3, 7))
    ]
    assert losses.tolist() == pytest.approx(expected)


def test_classes_have_a_loss_for_each_row():
    labels = torch.tensor([0, 4, -100])
    losses = losses_of(given := outputs(3), tokens_of({"labels": labels}, 3, True))
    expected = torch.nn.functional.cross_entropy(given.logits, labels, reduction="none")
    assert losses[:2].tolist() == pytest.approx(expected[:2].tolist())
    assert losses[2].isnan()


def test_outputs_with_chances_of_the_tokens_need_no_logits():
    chances = torch.log_softmax(outputs(3, 3).logits, -1)[..., 0]
    mask = torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()
    losses = losses_of(SimpleNamespace(log_probs=chances, label_mask=mask), tokens_of({"labels": LABELS}, 3, True))
    assert losses[:2].tolist() == pytest.approx([-chances[0, :2].mean().item(), -chances[1, 2].item()])
    assert losses[2].isnan()


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"labels": None},
        {"labels": torch.rand(3)},  # a regression
        {"labels": torch.zeros(3, 4, 2).long()},
        {"labels": LABELS[:2]},
        {"labels": LABELS[:1]},
        {"labels": LABELS[:1], "position_ids": torch.zeros(3, 1, 4)},
    ],
)
def test_where_rows_are_not_to_be_told_apart_nothing_is_said(inputs):
    assert tokens_of(inputs, 3, True) is None


def test_outputs_that_fit_no_labels_have_no_losses():
    tokens = tokens_of({"labels": LABELS}, 3, True)
    assert losses_of(outputs(3, 7), tokens) is None
    assert losses_of((torch.zeros(()),), tokens) is None


def test_the_last_outputs_of_a_model_are_seen_and_no_hook_stays():
    model = torch.nn.Linear(2, 2)
    with outputs_of(model) as seen:
        model(torch.zeros(1, 2))
        last = model(torch.ones(1, 2))
    assert len(seen) == 1
    assert seen[0] is last
    assert not model._forward_hooks
