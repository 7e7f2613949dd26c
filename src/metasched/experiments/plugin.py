"""What the experiments add to the library: data sets by name, figures and tables of the report, and commands."""

SETS = {
    "activity": "WISDM: phone sensors of 24 users in recorded order, target another user",
    "cifar": "Meta-CIFAR-100: four superclasses of animals, or all 19, target large carnivores",
    "demo": "MNIST at six angles, one source with wrong labels, one photo; target another angle; needs no files",
    "digits": "Semeion and Optical Recognition windows, target MNIST",
    "gas": "Gas Sensor Array Drift: batches of ageing sensors, target the last",
    "many": "digits four times: as they are, with shuffled labels, wrong labels, odd inputs; target MNIST",
    "reviews": "FDU-MTL: reviews of 15 kinds as bags of words, target books or another",
    "rotated": "MNIST at twelve angles, target an angle between two of them",
    "scripts": "digits of eight scripts, and letters; target USPS",
    "weather": "ExtremeWeather boxes by slot, five of 16 variables each",
    "weather-points": "ClimateNet points by region, five of 16 variables each",
}


def data_sets() -> None:
    """Register every data set by name. Its module is imported when the set is loaded."""
    from metasched import datasets

    for name, about in SETS.items():
        datasets.register(name, about, f"metasched.experiments.datasets.{name.replace('-', '_')}:load")
    datasets.register_files("metasched.experiments.datasets.files:files")


def outputs() -> None:
    """Register the figures and tables of the paper and of our experiments."""
    from metasched.experiments.outputs import register

    register()


def commands() -> None:
    """Register the commands, which are imported when they are used."""
    from metasched.cli.common import app
    from metasched.cli.data import data_app

    paper = "metasched.experiments.command"
    app.later("paper", paper, "Run the paper's experiments and report them on one page.")
    line = "Write a simulated file in the ExtremeWeather format, marked as simulated."
    data_app.later("simulate-weather", paper, line)
    orders = "metasched.experiments.order_commands"
    app.later("diagnose", orders, "Test whether the order of labels matters, and say which scheduler to use.")
    app.later("plan", orders, "Compute Gittins indices and the joint policy, and what each would draw.")
