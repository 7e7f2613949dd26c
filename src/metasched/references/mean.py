"""The mean of several models of any kind, which is used and stored like any other model."""

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from metasched import untrusted
from metasched.errors import ConfigError, DataError, RunError
from metasched.files import make_folder
from metasched.learners.model_file import ABOUT, FORMAT, REPAIR, Content, digest_of, read_content, write_content
from metasched.learners.predictor import Facts, Predictor
from metasched.tasks import Inputs

MOST = 1000
"""The most models in a mean."""


class Share(Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of a member, and the SHA-256 of its ``model.json``, which contains those of its other files."""

    weight: float
    sha256: str


class About(Facts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``model.json`` says about a mean."""

    members: Annotated[tuple[Share, ...], Meta(min_length=1, max_length=MOST)]


class _Content(Content, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["mean"]
    model: About


@dataclass(frozen=True, eq=False, repr=False)
class MeanModel(Predictor):
    """The weighted mean of the predictions of several models: of their probabilities, or of their numbers.

    Attributes:
        about: what its members share. In regression ``variance`` is the mean of theirs.
        members: the models.
        weights: one for each model. They sum to 1.
    """

    members: tuple[Predictor, ...]
    weights: tuple[float, ...]

    @property
    def title(self) -> str:
        """How many models, and what they were fitted on."""
        count = len(self.members)
        return f"the mean of {count} {'model' if count == 1 else 'models'} of {self.about.data}"

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder for each member, and ``model.json``. A model that is already there is replaced.

        Args:
            folder: the folder, which is made if it does not exist.
        """
        path = Path(folder)
        make_folder(path)
        shares = []
        # Members first. After a crash in between, model.json has the checksums of other members, and is refused.
        for number, (member, weight) in enumerate(zip(self.members, self.weights, strict=True), start=1):
            member.save(place(path, number))
            shares.append(Share(weight, _digest(place(path, number))))
        about = About(**_shared(self.about), members=tuple(shares))
        write_content(path, _Content(format=FORMAT, kind="mean", model=about, model_sha256=digest_of(about)))

    def _outputs(self, rows: Inputs) -> NDArray[np.float32]:
        return self._exact(rows).astype(np.float32)

    def _choices(self, rows: Inputs) -> NDArray[np.int64]:
        return np.asarray(np.argmax(self._exact(rows), axis=1))

    def _exact(self, rows: Inputs) -> NDArray[np.float64]:
        total = np.zeros(0)
        for number, (member, weight) in enumerate(zip(self.members, self.weights, strict=True)):
            found = weight * member._outputs(rows).astype(np.float64)
            if number and found.shape != total.shape:
                raise DataError(
                    f"models of a mean predict arrays of shape {total.shape} and {found.shape}; give models "
                    "with equal outputs"
                )
            total = total + found if number else found
        return total


def mean_of(members: Sequence[Predictor], weights: Sequence[float] | None = None) -> MeanModel:
    """The mean of models with the same inputs and answers. Without ``weights`` all members count equally."""
    given = [1.0] * len(members) if weights is None else [float(weight) for weight in weights]
    if not 1 <= len(members) <= MOST:
        raise ConfigError(f"a mean has 1 to {MOST} models, not {len(members)}; give fewer or more")
    if len(given) != len(members):
        raise ConfigError(f"there are {len(members)} models but {len(given)} weights; give one for each model")
    if not all(0 <= weight < math.inf for weight in given) or not 0 < sum(given) < math.inf:
        raise ConfigError("the weights of models must be at least 0, and not all 0; correct the weights")
    shares = [weight / sum(given) for weight in given]
    for member in members:
        if isinstance(member, MeanModel):
            raise ConfigError("a mean of means cannot be saved; give the models in these means")
        if not _alike(member.about, members[0].about):
            raise ConfigError(
                "models of a mean must read the same inputs and predict the same classes; leave the others out"
            )
    units = [member.about.variance for member in members]
    shared = _shared(members[0].about)
    if None not in units:
        shared["variance"] = sum(share * float(unit or 0) for share, unit in zip(shares, units, strict=True))
    return MeanModel(Facts(**shared), tuple(members), tuple(shares))


def read(folder: Path, read_member: Callable[[Path], Predictor]) -> MeanModel:
    """Read what :meth:`MeanModel.save` wrote. ``read_member`` reads a model that is not a mean."""
    about = read_content(folder, _Content).model
    weights = tuple(share.weight for share in about.members)
    if not all(0 <= weight <= 1 for weight in weights) or not math.isclose(sum(weights), 1, rel_tol=1e-6):
        raise RunError(f"{folder / ABOUT}: is damaged (its weights do not sum to 1); {REPAIR}")
    if about.variance is not None and not about.variance > 0:
        raise RunError(f"{folder / ABOUT}: is damaged (its variance is not above 0); {REPAIR}")
    members = []
    for number, share in enumerate(about.members, start=1):
        inside = place(folder, number)
        if _digest(inside) != share.sha256:
            raise RunError(f"{inside}: is not the model that the mean was made from; {REPAIR}")
        members.append(read_member(inside))
        if not _alike(members[-1].about, about):
            raise RunError(f"{inside}: reads other inputs or predicts other classes than the mean; {REPAIR}")
    return MeanModel(Facts(**_shared(about)), tuple(members), weights)


def place(folder: Path, number: int) -> Path:
    """The folder of a member. Numbers start at 1."""
    return folder / f"member-{number}"


def _digest(folder: Path) -> str:
    return hashlib.sha256(untrusted.read_bytes(folder / ABOUT, untrusted.LARGEST_JSON, REPAIR)).hexdigest()


def _alike(one: Facts, other: Facts) -> bool:
    known = [(each.shape, each.classes, each.variance is None) for each in (one, other)]
    return known[0] == known[1] and one.preparation == other.preparation


def _shared(about: Facts) -> dict[str, Any]:
    """What all kinds of models have in common."""
    return {name: getattr(about, name) for name in Facts.__struct_fields__}
