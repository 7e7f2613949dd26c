"""Draw the pictures of docs/explained: what is plotted is computed here, by the package itself.

python tools/pictures.py            # draw
python tools/pictures.py --check    # exit 1 if a file is not what would be drawn
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import metasched as ms
from metasched.report.plots import COLOURS, IN_ORDER
from svg import INK, box, dot, path, picture, text

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
SOURCES = ("sensor A", "sensor B", "sensor C")
USEFUL = "#00918c"
"""Of the arrow of a useful source; figures of results draw these in grey."""


def algorithm() -> str:
    """One meta-update: rows at three cursors, a scheduler, inner steps, the target's rows, the outer step."""

    def parts() -> Iterator[str]:
        for number, name in enumerate(SOURCES):
            y, colour = 34 + 62 * number, IN_ORDER[number]
            yield text(20, y - 8, name, anchor="start", colour=colour)
            for row in range(10):
                ahead = (2, 5, 1)[number] <= row < (2, 5, 1)[number] + 3
                yield box(20 + 16 * row, y, 13, 20, colour=colour, fill=0.55 if ahead and number == 1 else 0.12)
            cursor = 20 + 16 * (2, 5, 1)[number] - 1.5
            yield path([(cursor, y - 4), (cursor, y + 26)], width=2.5)
        yield text(100, 212, "the cursor of each source", size=12)
        yield box(236, 74, 108, 58, colour=COLOURS["thompson"], fill=0.12)
        yield text(290, 99, "scheduler", colour=COLOURS["thompson"])
        yield text(290, 117, "takes B", size=12)
        yield path([(186, 106), (232, 106)], tip=True)
        yield path([(344, 103), (378, 103)], tip=True)
        for step in range(3):
            x = 382 + 66 * step
            yield box(x, 78, 52, 50, colour=IN_ORDER[(1, 0, 1)[step]], fill=0.25)
            yield text(x + 26, 100, "step", size=12)
            yield text(x + 26, 116, "BAB"[step], size=12)
            if step < 2:
                yield path([(x + 52, 103), (x + 64, 103)], tip=True)
        yield text(474, 64, "inner loop: m batches, from the start λ", size=12)
        yield path([(566, 103), (596, 103)], tip=True)
        yield box(600, 74, 104, 58, colour=COLOURS["target-only"], fill=0.12)
        yield text(652, 99, "target", colour=COLOURS["target-only"])
        yield text(652, 117, "validation rows", size=12)
        yield path([(652, 132), (652, 176), (408, 176), (408, 132)], colour=COLOURS["target-only"], tip=True)
        yield text(530, 194, "outer step: a better start λ, through all inner steps", size=12)
        yield path([(474, 54), (474, 26), (290, 26), (290, 70)], colour=COLOURS["thompson"], dash="5 3", tip=True)
        yield text(382, 18, "reward: what the batch was worth", size=12)

    return picture(720, 222, "One meta-update of Algorithm 1", parts())


CHAIN_REWARDS = np.array([0.2, 0.9, 0.8, 0.1, 0.1])
DISCOUNT = 0.9


def gittins() -> str:
    """The rate of reward against when to stop, from three labels of a chain; the index is the top of each curve."""
    chain = np.roll(np.eye(len(CHAIN_REWARDS)), 1, axis=1)
    indices = ms.planning.gittins_index(chain, CHAIN_REWARDS, DISCOUNT)
    longest, left, base, wide, tall = 12, 60, 210, 430, 180

    def place(draws: float, rate: float) -> tuple[float, float]:
        return left + wide * (draws - 1) / (longest - 1), base - tall * rate

    def parts() -> Iterator[str]:
        yield path([(left, base - tall), (left, base), (left + wide, base)])
        for rate in (0.0, 0.5, 1.0):
            yield text(left - 8, place(1, rate)[1] + 4, f"{rate:.1f}", anchor="end", size=12)
        for draws in (1, 4, 8, 12):
            yield text(place(draws, 0)[0], base + 18, str(draws), size=12)
        yield text(left + wide / 2, base + 36, "draws before stopping")
        yield text(left + wide / 2, 18, "discounted reward per discounted draw")
        for label, colour in ((1, IN_ORDER[2]), (0, IN_ORDER[0]), (3, IN_ORDER[1])):
            turn = np.arange(longest)
            weights = DISCOUNT**turn
            rewards = CHAIN_REWARDS[(label + turn) % len(CHAIN_REWARDS)]
            rates = np.cumsum(weights * rewards) / np.cumsum(weights)
            yield path([place(n + 1, rate) for n, rate in enumerate(rates)], colour=colour, width=2.5)
            best = int(np.argmax(rates))
            yield dot(*place(best + 1, rates[best]), colour=colour, radius=5.5)
            yield path([place(best + 1, rates[best]), place(longest, indices[label])], colour=colour, dash="2 4")
            words = f"label {label + 1}: index {indices[label]:.2f}, stop after {best + 1}"
            yield text(left + wide + 10, place(1, indices[label])[1] + 4, words, anchor="start", colour=colour)

    return picture(720, 256, "A Gittins index is the best rate of reward over all times to stop", parts())


def joint() -> str:
    """Which of two tasks is drawn in each joint state: by Gittins indices, and where the rewards are coupled."""
    labels, random = 6, np.random.default_rng(3)
    chains = random.dirichlet(np.full(labels, 0.6), size=(2, labels))
    by_class = random.random((2, labels, labels))
    own = by_class.mean(axis=2)
    indices = ms.planning.gittins_index(chains, own, 0.95)
    apart = (indices[1][None, :] > indices[0][:, None]).astype(int)
    coupled = ms.planning.solve_joint(chains, ms.planning.coupled_rewards(by_class), 0.95).actions

    def parts() -> Iterator[str]:
        for left, actions, words in (
            (100, apart, "each task alone: Gittins indices"),
            (450, coupled, "together: coupled rewards"),
        ):
            yield text(left + 105, 22, words)
            for one in range(labels):
                for other in range(labels):
                    task, changed = int(actions[one, other]), actions[one, other] != apart[one, other]
                    x, y = left + 35 * other, 34 + 30 * one
                    yield box(x, y, 32, 27, colour=IN_ORDER[task], fill=0.75 if changed else 0.25)
                    yield text(x + 16, y + 18, "AB"[task], size=12, colour="#ffffff" if changed else INK)
            yield text(left + 105, 232, "label at B's cursor", size=12)
            yield text(left - 10, 124, "label at", anchor="end", size=12)
            yield text(left - 10, 140, "A's cursor", anchor="end", size=12)
        yield text(
            360, 256, "which task is drawn, A or B, in each of the 36 joint states; strong: where the two disagree"
        )

    return picture(720, 268, "Policies of two tasks with six labels each", parts())


def order() -> str:
    """Labels in order and shuffled, and where the observed χ² stands among those of shuffles."""
    random = np.random.default_rng(0)
    labels = np.repeat(random.integers(0, 4, 60), random.integers(1, 4, 60))[:110]

    def statistic(sequence: np.ndarray) -> float:
        counts = ms.dependence.transition_counts(sequence, 4)
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(sequence)
        return float((counts**2 / expected).sum() - len(sequence))

    observed, shuffled = statistic(labels), [statistic(random.permutation(labels)) for _ in range(2000)]
    left, base, wide = 90, 216, 600
    edges = np.linspace(0, observed * 1.1, 67)
    counts = np.histogram(shuffled, edges)[0]

    def across(value: float) -> float:
        return left + wide * value / edges[-1]

    def parts() -> Iterator[str]:
        for y, words, sequence in ((20, "as recorded", labels), (56, "shuffled", random.permutation(labels))):
            yield text(left - 4, y + 15, words, anchor="end", size=11)
            for place, label in enumerate(sequence):
                yield box(left + 5.4 * place, y, 4.4, 20, colour=IN_ORDER[label], fill=0.8)
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
            if count:
                tall = 100 * count / counts.max()
                yield box(across(low), base - tall, across(high) - across(low) - 1, tall, fill=0.3)
        yield path([(left, base), (left + wide, base)])
        yield path([(across(observed), base), (across(observed), 104)], colour=COLOURS["gittins"], width=2.5)
        yield text(across(observed) - 8, 116, "as recorded", colour=COLOURS["gittins"], anchor="end")
        yield text(across(float(np.mean(shuffled))) + 70, 130, "2,000 shuffles", anchor="start")
        yield text(left + wide / 2, base + 20, "χ² of how often each label follows each other one")

    return picture(720, 248, "A permutation test of label order", parts())


def transfer() -> str:
    """Batches of three sources: the reward is how far their gradient goes along the target's."""
    arrows = (
        ("useful", "useful", 28, 1.0),
        ("shuffled labels", "uniform", 96, 0.62),
        ("wrong labels", "gittins", 158, 0.9),
    )
    left, middle, reach = 330, 190, 260

    def parts() -> Iterator[str]:
        yield path(
            [(left - 240, middle), (left + reach + 60, middle)], colour=COLOURS["target-only"], tip=True, width=2.5
        )
        yield text(
            left + reach + 62, middle + 20, "where the target gets better", anchor="end", colour=COLOURS["target-only"]
        )
        yield path([(left, middle - 8), (left, middle + 8)])
        yield text(left, middle + 24, "0: abstain", size=12)
        for name, method, angle, length in arrows:
            colour, turn = {"useful": USEFUL, **COLOURS}[method], np.deg2rad(angle)
            x, y = left + reach * length * np.cos(turn), middle - 150 * length * np.sin(turn)
            yield path([(left, middle), (x, y)], colour=colour, width=2.5, tip=True)
            yield path([(x, y), (x, middle)], colour=colour, dash="3 3")
            yield path([(left, middle), (x, middle)], colour=colour, width=6)
            yield text(x, y - 8, name, colour=colour)
        yield text(360, 244, "a batch's reward is the thick part: the length of its gradient's shadow on the target's")

    return picture(720, 256, "Transfer is a projection of gradients", parts())


DRAWN: dict[str, Callable[[], str]] = {
    "algorithm": algorithm,
    "gittins": gittins,
    "joint-problem": joint,
    "order": order,
    "transfer": transfer,
}

if __name__ == "__main__":
    for name, draw in DRAWN.items():
        file, fresh = FIGURES / f"explained-{name}.svg", draw()
        if "--check" not in sys.argv:
            file.write_text(fresh)
        elif not file.exists() or file.read_text() != fresh:
            sys.exit(f"docs/figures/{file.name}: not what would be drawn; run 'python tools/pictures.py'")
