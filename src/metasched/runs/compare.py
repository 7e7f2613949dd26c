"""Methods against each other on one task set: rates tuned on folds of the target's labelled rows, then every seed.

The rule, alike for all methods: every method is run once on each of four folds of the labelled rows with each pair of
rates, those of the settings and those of the grid; the rates with the best mean score on the held-out rows are taken,
those of the settings where several are as good. The best single source is chosen in the same way, with the rates of the
settings, before its rates are tuned. No test row takes part. Then every method runs with every seed on all labelled
rows and is measured on the test rows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from metasched import untrusted
from metasched.errors import ConfigError, RunError
from metasched.files import make_folder, write_json
from metasched.learners.networks import Network
from metasched.learners.settings import LearnerSettings
from metasched.runs import folder
from metasched.runs.executors import Counts, Executor, Machines, executing
from metasched.runs.folder import COMPARISON
from metasched.runs.jobs import Job, claim_folders, make_jobs
from metasched.runs.kept import finish
from metasched.runs.outcome import OURS, OWN_RUNS, Outcome, Study
from metasched.runs.spec import differences, first_in_words
from metasched.runs.status import WORK
from metasched.runs.tuning import FOLDS, GRIDS, SEED, Rates, fold_sets, mean_finals
from metasched.schedulers.resolve import BASELINE, BEST_SINGLE, SINGLE, TARGET_ONLY
from metasched.tasks import TaskSet

CHOOSING = "thompson"
"""The scheduler that the verdict is on: ours."""
SINGLE_BEST = "best-single"
DEFAULT = (CHOOSING, BASELINE, TARGET_ONLY, SINGLE_BEST)
"""Ours, the baseline, no sources at all, and the one source that did best on the target's labelled rows."""
RUNS = "runs"
TUNING = Path(WORK) / "tuning.jsonl"

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, the runs finished and all runs, whenever one has finished."""


class Method(NamedTuple):
    """A row of a comparison: the word it was asked for by, its name in tables, its role, its scheduler, its rates."""

    word: str
    name: str
    role: str
    scheduler: str
    rates: Rates


class Grid(NamedTuple):
    """What all runs of a comparison have in common."""

    tasks: TaskSet
    network: Network | str
    settings: LearnerSettings
    seeds: tuple[int, ...]
    reward: str = "transfer"
    abstain: bool = False

    @property
    def rates(self) -> list[Rates]:
        """The pairs that are tried, those of the settings first."""
        return list(dict.fromkeys([self.settings.rates, *GRIDS[self.settings.name]]))

    def jobs(self, scheduler: str, rates: Rates, tasks: TaskSet, seeds: Sequence[int], **told: Any) -> list[Job]:
        """A scheduler with these rates on these rows, a job for each seed."""
        known: dict[str, Any] = {"network": self.network, "reward": self.reward, "abstain": self.abstain}
        learner = self.settings.with_rates(rates)
        return make_jobs(tasks, scheduler, learner=learner, seeds=seeds, **known, **told)


def run_methods(
    grid: Grid,
    words: Sequence[str],
    out: Path | None,
    on_progress: OnProgress | None,
    machines: Machines = Machines(),  # noqa: B008
) -> list[Outcome]:
    """Tune and run every method; the outcomes, method after method, seed after seed.

    With ``out`` everything is kept there, and a comparison that was interrupted goes on to the same numbers, wherever
    the runs are made; so does a finished one to which seeds are added.
    """
    own = not isinstance(grid.network, str)
    machines.check(own)
    _check(grid, words)
    reached = executing(machines, out and out / WORK, _numbers(grid, words), own)  # before anything is written
    with reached as executor, _claimed(out, grid, words), closing(executor):
        chosen, scores, tries = _tuned(grid, words, out, on_progress, executor)
        study = _study(grid, chosen, scores)
        place = out or (executor.folder if executor.needs_folders else None)
        jobs = [
            job
            for method in chosen
            for job in grid.jobs(
                *(method.scheduler, method.rates, grid.tasks, grid.seeds),
                method=method.name,
                role=method.role,
                study=study,
                out=place and runs_of(place, method.word),
            )
        ]
        return _measured(claim_folders(jobs, place and place / RUNS), tries, on_progress, executor)


def named_first(words: Sequence[str]) -> str:
    """The method that the verdict is on, named before the runs: ours, or else the first that is no control."""
    others = [word for word in words if word not in (BASELINE, TARGET_ONLY)]
    return CHOOSING if CHOOSING in words else others[0] if others else BASELINE


def runs_of(out: Path, word: str) -> Path:
    """Where in the folder of a comparison the runs of a method are."""
    return out / RUNS / word.replace(":", "-")


def _measured(jobs: Sequence[Job], tries: int, on_progress: OnProgress | None, executor: Executor) -> list[Outcome]:
    """The outcomes of the runs that are reported, in their order."""
    finished: dict[int, Outcome] = {}
    standing = ""

    def say() -> None:
        if on_progress:
            on_progress(f"measuring{standing}", tries + len(finished), tries + len(jobs))

    def on_outcome(number: int, outcome: Outcome) -> None:
        finished[number] = outcome
        say()

    def on_counts(counts: Counts) -> None:
        nonlocal standing
        standing = f": {counts}" if str(counts) else ""
        say()

    executor.run(jobs, on_outcome, on_counts)
    return [finished[number] for number in range(len(jobs))]


def _numbers(grid: Grid, words: Sequence[str]) -> int:
    """About how many numbers all runs learn from: rows drawn × numbers in a row."""
    settings = grid.settings.resolve(grid.tasks)
    drawn = settings.updates * (settings.batches_per_update or 1) * settings.inner_steps * settings.batch_size
    return len(words) * (len(grid.rates) * FOLDS + len(grid.seeds)) * drawn * math.prod(grid.tasks.shape)


def _check(grid: Grid, words: Sequence[str]) -> None:
    """Refuse what cannot run, before anything is computed or written."""
    if not words or len(set(words)) != len(words):
        raise ConfigError(f"schedulers are {', '.join(words) or 'none'}; give one or more, each once")
    if BEST_SINGLE in words:
        raise ConfigError(f"{BEST_SINGLE} is chosen on test rows; give {SINGLE_BEST}, chosen on the labelled rows")
    fold_sets(grid.tasks)
    for word in words:
        grid.jobs(f"{SINGLE}1" if word == SINGLE_BEST else word, grid.settings.rates, grid.tasks, grid.seeds)


Scores = dict[tuple[str, Rates], float]
"""Mean score on held-out rows of a scheduler with these rates."""


def _tuned(
    grid: Grid, words: Sequence[str], out: Path | None, on_progress: OnProgress | None, executor: Executor
) -> tuple[list[Method], Scores, int]:
    """Every method with the rates that did best on the folds, all scores, and how many runs that took."""
    parts, rates = fold_sets(grid.tasks), grid.rates
    quick = grid._replace(settings=replace(grid.settings, eval_every=grid.settings.updates))
    named = [word for word in words if word != SINGLE_BEST]
    singles = [f"{SINGLE}{place}" for place in range(1, len(grid.tasks.tasks) + 1)] * (SINGLE_BEST in words)
    first = [*((word, pair) for word in named for pair in rates), *((word, rates[0]) for word in singles)]
    last = (len(rates) - 1) * FOLDS if singles else 0
    total = len(first) * FOLDS + last + len(words) * len(grid.seeds)

    def scores(tries: Sequence[tuple[str, Rates]], before: int) -> Scores:
        def say(done: int, standing: str) -> None:
            if on_progress:
                on_progress(f"tuning: {standing}" if standing else "tuning", before + done, total)

        jobs = [job for word, pair in tries for part in parts for job in quick.jobs(word, pair, part, [SEED])]
        finished = finish(jobs, out and out / TUNING, executor, say)
        return dict(zip(tries, mean_finals(finished, FOLDS), strict=True))

    known = scores(first, 0)
    best = max(singles, key=lambda single: known[single, rates[0]], default="")
    if best:
        known |= scores([(best, pair) for pair in rates[1:]], len(first) * FOLDS)
    chosen = []
    for word in words:
        scheduler = best if word == SINGLE_BEST else word
        pair = max(rates, key=lambda pair, scheduler=scheduler: known[scheduler, pair])  # type: ignore[misc]
        name, role = _called(word, best, grid.tasks)
        ours = word == named_first(words) != BASELINE
        chosen.append(Method(word, name, OURS if ours else role, scheduler, pair))
    return chosen, known, len(first) * FOLDS + last


def _called(word: str, best: str, tasks: TaskSet) -> tuple[str, str]:
    """The name of a method in tables, and its role."""
    if word != SINGLE_BEST:
        return word, ""
    return f"best single: {tasks.tasks[int(best.removeprefix(SINGLE)) - 1].name}", "chosen on the labelled rows"


def _study(grid: Grid, chosen: Sequence[Method], scores: Scores) -> Study:
    """What the outcomes say of how they came about."""
    name = grid.tasks.name
    rates = {
        method.name: {
            **dict(zip(grid.settings.rate_names, method.rates, strict=True)),
            "accuracy": round(scores[method.scheduler, method.rates], 4),
        }
        for method in chosen
    }
    return Study(
        experiment=name,
        regime=OWN_RUNS,
        variant=f"{grid.settings.name} learner",
        cell=f"{name} {grid.tasks.fingerprint[:16]} {grid.settings.name}",
        title=f"{name}, {grid.settings.name} learner",
        tuning={
            "on": f"{FOLDS} folds of the target's labelled rows",
            "seeds": [SEED],
            "grid": [list(pair) for pair in grid.rates],
            "chosen": rates,
        },
    )


@contextmanager
def _claimed(out: Path | None, grid: Grid, words: Sequence[str]) -> Iterator[None]:
    """The folder of a comparison, made or found to hold the same one; nobody else works in it meanwhile.

    One with fewer seeds is the same: that there are more now is written down before the first of them is run.
    """
    if out is None:
        yield
        return
    asked = {
        "data": grid.tasks.fingerprint,
        "learner": grid.settings.name,
        "network": grid.network if isinstance(grid.network, str) else "own",
        "schedulers": list(words),
        "seeds": list(grid.seeds),
        "settings": asdict(grid.settings),
        "reward": grid.reward,
        "abstain": grid.abstain,
    }
    mark = out / COMPARISON
    if not mark.exists():
        folder.refuse_content(out, COMPARISON)
        make_folder(out)
    with folder.locked(out):
        stored = (
            untrusted.read_json(mark, dict[str, Any], "compare again in another folder") if mark.exists() else asked
        )
        _refuse_fewer_seeds(out, stored.get("seeds"), grid.seeds)
        if found := dict(differences(stored | {"seeds": asked["seeds"]}, asked)):
            raise RunError(f"{out}: holds a comparison {first_in_words(found)}; choose another folder")
        write_json(mark, asked)
        yield


def _refuse_fewer_seeds(out: Path, held: Any, seeds: Sequence[int]) -> None:
    """Seeds may be added to those that a folder holds; none of these may be left out."""
    held = held if isinstance(held, list) else [held]
    missing = [seed for seed in held if seed not in seeds]
    if missing:
        told = f"{len(held)} seeds, {missing[0]} among them"
        raise RunError(f"{out}: holds a comparison with {told}; give at least these, or choose another folder")
    if len(held) == 1 and len(seeds) > 1:  # its runs lie where the folders of several seeds would
        raise RunError(f"{out}: holds a comparison with one seed, to which none can be added; choose another folder")
