"""``metasched diagnose`` and ``metasched plan``: does the order of labels matter, and what follows from it?"""

from pathlib import Path
from typing import Literal

from metasched.cli.common import RowFlags, Rows, SetName, app, print_json, put, say, stderr, stdout
from metasched.cli.settings import LearnerFlags
from metasched.errors import ConfigError

MOST_BATCHES = 1_000_000


@app.command
def diagnose(
    set: SetName,
    rows: RowFlags = Rows(),  # noqa: B008
    network: str = "auto",
    permutations: int = 10_000,
    steps: int = 120,
    seed: int = 0,
    out: Path | None = None,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Test whether the order of labels matters, and say which scheduler to use.

    Example: metasched diagnose digits --out transitions.svg

    Args:
        set: A data set, a CSV, Parquet or .npz file, a folder of tables or of images.
        rows: Which rows, and what to predict.
        network: The network whose reward is followed: auto, mlp or cnn.
        permutations: The number of shuffles for every p-value.
        steps: Inner steps over which the scaled reward is followed; 0 skips this.
        seed: The seed of shuffles and initial weights.
        out: Also write the transition matrices as a chart (.svg, .png, .pdf or .html).
        quiet: No progress.
        json: Print as JSON.
    """
    from metasched.cli import progress
    from metasched.experiments import diagnosis
    from metasched.learners.diagnose import diagnose as run

    if out is not None:
        diagnosis.check_format(out)
    tasks = rows.load(set)
    with progress.waiting(stderr(), "diagnose", quiet) as on_step:
        result = run(tasks, network, permutations=permutations, steps=steps, seed=seed, on_step=on_step)
    if out is not None:
        diagnosis.save_chart(diagnosis.transition_chart(result), out)
    if json:
        print_json(diagnosis.diagnosis_json(result))
        return
    console = stdout()
    say(f"{tasks.name}{' (SIMULATED data)' if tasks.simulated else ''}: {diagnosis.answer(result)}\n")
    console.print(diagnosis.order_table(result))
    put()
    for task, order, p in zip(tasks.tasks, result.orders, result.p_values, strict=True):
        say(f"{task.name}: {order.verdict(float(p))}")
    say("\nTransitions (row: label, column: the next one, shade: probability)")
    say(diagnosis.heat_maps(result, console.width))
    say(f"\n{diagnosis.association_line(result)}")
    if result.stationarity is not None:
        names = tuple(task.name for task in tasks.tasks)
        say("\n" + "\n".join(diagnosis.stationarity_lines(result.stationarity, names)))
    say(f"\nColumns of the table:\n{diagnosis.ORDER_LEGEND}")
    if out is not None:
        say(f"\nChart: {out}")


@app.command
def plan(
    set: SetName,
    asked: LearnerFlags,
    rows: RowFlags = Rows(),  # noqa: B008
    network: str = "auto",
    discount: float = 0.99,
    stride: Literal["batch", "row"] = "batch",
    rewards: Literal["auto", "coupled", "separable"] = "auto",
    smoothing: float = 0.0,
    method: str = "auto",
    batches: int = 1460,
    seed: int = 0,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Compute Gittins indices and the joint policy, and what each would draw.

    Example: metasched plan digits --data target_labels=30 --discount 0.99

    Args:
        set: A data set, a CSV, Parquet or .npz file, a folder of tables or of images.
        asked: The learner. Its batch size matters here, and for Algorithm 1 the inner rate and the steps per batch.
        rows: Which rows, and what to predict.
        network: The network whose initial model is probed: auto, mlp or cnn.
        discount: The worth of a reward one batch later; at least 0 and below 1.
        stride: batch: the chain moves by a batch (P^B); row: by a row (P), as the paper writes it.
        rewards: The rewards of the joint problem: auto, coupled (between tasks) or separable.
        smoothing: The sum of pseudo-counts in each row of the transition matrices.
        method: The method for the joint problem: auto, numpy, jax, lp, frozen-gittins, rollout, top-k or myopic.
        batches: Replay the policies for this many batches; 1460 is a year at four a day.
        seed: The seed of the initial weights.
        quiet: No progress.
        json: Print as JSON.
    """
    from metasched.cli import progress
    from metasched.experiments import plans
    from metasched.learners.probe import plan as make
    from metasched.report.tables import drawn_by_label

    if not 1 <= batches <= MOST_BATCHES:
        raise ConfigError(f"batches is {batches}; give 1 … {MOST_BATCHES:,}")
    tasks = rows.load(set)
    result = make(
        tasks,
        network,
        asked.settings(),
        discount=discount,
        stride=stride,
        rewards=rewards,
        smoothing=smoothing,
        method=method,
        seed=seed,
    )
    methods: tuple[plans.Policy, ...] = ("gittins", "mdp")
    drawn = {}
    with progress.waiting(stderr(), "plan", quiet) as on_step:
        on_step(0, 4, "rewards of the initial model")
        result.indices  # noqa: B018
        on_step(1, 4, "joint policy")
        result.policy  # noqa: B018
        for number, name in enumerate(methods):
            on_step(2 + number, 4, f"{batches:,} batches by {name}")
            drawn[name] = result.rows_drawn(name, batches)
    if json:
        print_json(plans.plan_json(result, batches, drawn))
        return
    console = stdout()
    kind = " (SIMULATED data)" if tasks.simulated else ""
    say(f"{tasks.name}{kind}: {plans.answer(result, drawn)}\n")
    for line in plans.index_tables(result):
        console.print(line)
    say(plans.policy_line(result))
    for name in methods:
        say(f"\nRows drawn in {batches:,} batches of {result.batch_size} by {name}:")
        console.print(drawn_by_label(drawn[name].tolist(), tasks))
    say(f"\nWords, at discount {discount:g}:\n{plans.LEGEND}")
