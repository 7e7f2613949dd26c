"""``metasched diagnose`` and ``metasched plan``: what the data say, and what follows for the next batch."""

from pathlib import Path
from typing import Literal

from rich.console import Console

from metasched.cli.common import Options, SetName, app, at_least_one, pairs, print_json, say
from metasched.cli.settings import Settings


@app.command
def diagnose(
    set: SetName,
    data: Options = (),
    network: str = "auto",
    permutations: int = 10_000,
    steps: int = 120,
    seed: int = 0,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Test whether label order carries information, and say which scheduler that calls for.

    Example: metasched diagnose digits --out transitions.svg

    Args:
        set: A data set, an .npz file, or a folder of images.
        data: An option of the data set, key=value; may be repeated.
        network: The network whose reward is followed: auto, mlp or cnn.
        permutations: Shuffles behind every p-value.
        steps: Inner steps over which the scaled reward is followed; 0 leaves that out.
        seed: Of shuffles and initial weights.
        out: Also write the transition matrices as a chart (.svg, .png, .pdf or .html).
        json: Print as JSON.
    """
    from metasched import datasets
    from metasched.learners.diagnose import diagnose as run
    from metasched.report import charts, evidence

    if out is not None:
        charts.check_format(out)
    tasks = datasets.load(set, **pairs("--data", data))
    result = run(tasks, network, permutations=permutations, steps=steps, seed=seed)
    if out is not None:
        charts.save_chart(charts.transition_chart(result), out)
    if json:
        print_json(evidence.diagnosis_json(result))
        return
    console = Console()
    say(f"{tasks.name}{' (SIMULATED data)' if tasks.simulated else ''}: does the order of labels matter?\n")
    console.print(evidence.order_table(result))
    say(f"\n{evidence.ORDER_LEGEND}\n")
    for task, order, p in zip(tasks.tasks, result.orders, result.p_values, strict=True):
        say(f"{task.name}: {order.verdict(float(p))}")
    say("\nTransitions (row: label, column: the next one, shade: probability)")
    say(evidence.heat_maps(result, console.width))
    say(f"\n{evidence.association_line(result)}")
    if result.stationarity is not None:
        names = tuple(task.name for task in tasks.tasks)
        say("\n" + "\n".join(evidence.stationarity_lines(result.stationarity, names)))
    say(f"\nRecommendation: {result.recommendation}. Because {result.reason}.")
    if out is not None:
        say(f"Chart: {out}")


@app.command
def plan(
    set: SetName,
    config: Settings,
    data: Options = (),
    network: str = "auto",
    discount: float = 0.99,
    stride: Literal["batch", "row"] = "batch",
    rewards: Literal["auto", "coupled", "separable"] = "auto",
    smoothing: float = 0.0,
    method: str = "auto",
    batches: int = 1460,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Compute Gittins indices and the joint policy, and what each would draw.

    Example: metasched plan digits --data target_labels=30 --discount 0.99

    Args:
        set: A data set, an .npz file, or a folder of images.
        config: Settings of Algorithm 1; batch size, inner rate and steps per batch matter here.
        data: An option of the data set, key=value; may be repeated.
        network: The network whose initial model is probed: auto, mlp or cnn.
        discount: Worth of a reward one batch later; from 0 up to, but not including, 1.
        stride: Whether the chain moves by a batch (P^B) or, as the paper writes it, by a row (P).
        rewards: Of the joint problem: coupled between tasks, or separable.
        smoothing: Pseudo-counts in each row of the transition matrices.
        method: Of the joint problem: auto, numpy, jax, lp, frozen-gittins, rollout, top-k or myopic.
        batches: Replay the policies for this many batches; 1460 is a year at four a day.
        seed: Of the initial weights.
        json: Print as JSON.
    """
    from metasched import datasets
    from metasched.learners.probe import plan as make
    from metasched.report import plans

    at_least_one("batches", batches)
    tasks = datasets.load(set, **pairs("--data", data))
    result = make(
        tasks,
        network,
        config,
        discount=discount,
        stride=stride,
        rewards=rewards,
        smoothing=smoothing,
        method=method,
        seed=seed,
    )
    if json:
        print_json(plans.plan_json(result, batches))
        return
    console = Console()
    kind = " (SIMULATED data)" if tasks.simulated else ""
    say(f"{tasks.name}{kind}: the worth of each label, discount {discount:g}\n")
    for line in plans.index_tables(result):
        console.print(line)
    say(plans.policy_line(result))
    methods: tuple[plans.Method, ...] = ("gittins", "mdp")
    for name in methods:
        say(f"\nRows drawn in {batches:,} batches of {result.batch_size} by {name}:")
        console.print(plans.drawn_table(result, name, batches))
