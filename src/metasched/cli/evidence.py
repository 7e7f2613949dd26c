"""``metasched diagnose``: does order matter in a data set, and which scheduler does that call for?"""

from pathlib import Path

from rich.console import Console

from metasched.cli.common import Options, SetName, app, pairs, print_json, say


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
    from metasched.meta.diagnose import diagnose as run
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
