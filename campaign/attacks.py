"""Which attacks there are, by name: where the function is and how many attempts its long form makes."""

from importlib import import_module
from typing import NamedTuple, cast

from campaign.table import Attack


class Entry(NamedTuple):
    """``place`` is ``module:function``, imported when the attack is asked for; ``attempts`` is the long form's."""

    place: str
    attempts: int


ATTACKS: dict[str, Entry] = {
    "mutations": Entry("campaign.mutations:mutations", 100_000),
    "chooser": Entry("campaign.chooser:chooser", 1_000_000),
    "downloads": Entry("campaign.downloads:downloads", 2_000),
    "protocol": Entry("campaign.protocol:protocol", 1),
    "faults": Entry("campaign.faults:faults", 50),
    "counters": Entry("campaign.kills:counters", 1000),
    "workers": Entry("campaign.kills:workers", 200),
    "loops": Entry("campaign.kills:loops", 1000),
    "kills": Entry("campaign.kills:kills", 1000),
}


def find(name: str) -> Attack:
    """The function of an attack.

    >>> find("kills").__name__  # doctest: +SKIP
    'kills'
    """
    module, function = ATTACKS[name].place.split(":")
    return cast(Attack, getattr(import_module(module), function))
