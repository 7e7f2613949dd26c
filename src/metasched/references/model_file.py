"""A reference model as two files, named like those of a network (:mod:`metasched.learners.model_file`).

``model.safetensors`` has the arrays of the parameters, whose names show their kind. The files may come from an
attacker, so every array, index and number is checked before it is used.
"""

import math
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from metasched.errors import RunError
from metasched.files import make_folder
from metasched.learners.model_file import (
    FORMAT,
    REPAIR,
    WEIGHTS,
    Content,
    Tensors,
    digest_of,
    read_content,
    read_tensors,
    write_content,
    write_tensors,
)
from metasched.learners.predictor import Facts
from metasched.references.fit import Constant, Estimator, Parameters
from metasched.references.linear import Linear
from metasched.references.trees import Trees

RowsName: TypeAlias = Literal["target", "pooled", "weighted", "greedy", "chosen"]

LARGEST = 2**32
"""The most bytes of the arrays of a model."""
MOST_OUTPUTS = 100_000
"""The most classes, or numbers to predict. Each new row needs this many numbers."""
_KINDS: dict[type[Any], dict[str, tuple[str, int]]] = {
    Constant: {"answer": ("float64", 1)},
    Linear: {"weights": ("float64", 2), "bias": ("float64", 1)},
    Trees: {
        "feature": ("int32", 1),
        "threshold": ("float32", 1),
        "leaf": ("int32", 1),
        "values": ("float64", 2),
        "start": ("float64", 1),
        "columns": ("int32", 1),
    },
}
"""The arrays of each kind of parameters: their types and numbers of dimensions."""
_OUTPUTS: dict[type[Any], str] = {Constant: "answer", Linear: "bias", Trees: "start"}
"""The array with one number for each output."""


class About(Facts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a reference model except its parameters. :class:`~metasched.references.recipes.Recipe` explains
    the words.
    """

    estimator: Estimator
    rows: RowsName


class _Content(Content, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the ``model.json`` of a reference model."""

    kind: Literal["reference"]
    model: About
    weights_sha256: str


def write(folder: Path, about: About, parameters: Parameters) -> None:
    """Write both files, the arrays first. The folder is made if it does not exist."""
    make_folder(folder)
    arrays = {each.name: np.asarray(getattr(parameters, each.name)) for each in fields(parameters)}
    tensors = {name: arrays[name] for name in _KINDS[type(parameters)]}
    digest = write_tensors(folder / WEIGHTS, tensors)
    write_content(
        folder,
        _Content(format=FORMAT, kind="reference", model=about, model_sha256=digest_of(about), weights_sha256=digest),
    )


def read(folder: Path) -> tuple[About, Parameters]:
    """Read what :func:`write` wrote."""
    content = read_content(folder, _Content)
    about, path = content.model, folder / WEIGHTS
    if bool(about.classes) == (about.variance is not None) or len(about.classes) > MOST_OUTPUTS:
        raise RunError(f"{folder}: is damaged (its model has {len(about.classes)} classes); {REPAIR}")
    if about.variance is not None and not about.variance > 0:
        raise RunError(f"{folder}: is damaged (its variance is not above 0); {REPAIR}")
    parameters = _parameters(read_tensors(path, LARGEST, content.weights_sha256), about, path)
    if fault := parameters.fault(math.prod(about.shape), len(about.classes)):
        raise RunError(f"{path}: is damaged ({fault}); {REPAIR}")
    return about, parameters


def _parameters(tensors: Tensors, about: About, path: Path) -> Parameters:
    """The parameters from arrays with these names, of the right types and all finite."""
    for kind, arrays in _KINDS.items():
        if set(arrays) != set(tensors):
            continue
        for name, (of, dimensions) in arrays.items():
            array = tensors[name]
            if array.dtype != of or array.ndim != dimensions or not np.all(np.isfinite(array)):
                raise RunError(f"{path}: is damaged (array '{name}' has a wrong type or value); {REPAIR}")
        if tensors[_OUTPUTS[kind]].size > MOST_OUTPUTS:
            break
        more = {"averaged": about.estimator == "forest"} if kind is Trees else {}
        made: Parameters = kind(**tensors, **more)
        return made
    raise RunError(f"{path}: is damaged (its arrays do not belong to any model); {REPAIR}")
