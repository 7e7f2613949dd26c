"""The public files behind the data sets, each with its size, its SHA-256 and where it can be downloaded."""

from collections.abc import Mapping

from metasched.datasets.store import DataFile
from metasched.experiments.datasets import activity, cifar100, climatenet, gas, glyphs, mnist, reviews, uci


def files() -> Mapping[str, tuple[DataFile, ...]]:
    """List all files by collection."""
    return {
        "activity": (activity.FILE,),
        "cifar100": tuple(cifar100.FILES.values()),
        "cifar100-more": tuple(cifar100.SAMPLE_FILES.values()),
        "climatenet": tuple(climatenet.FILES.values()),
        "gas": gas.FILES,
        "mnist": tuple(mnist.FILES.values()),
        "optdigits": uci.OPTDIGITS,
        "reviews": reviews.FILES,
        "scripts": tuple(file for own in glyphs.FILES.values() for file in own),
        "semeion": uci.SEMEION,
    }
