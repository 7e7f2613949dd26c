"""Reads a model of any kind from its folder. ``model.json`` says which kind it is."""

from functools import partial
from pathlib import Path
from typing import Any

from metasched import untrusted
from metasched.errors import RunError
from metasched.learners.model import read_model
from metasched.learners.model_file import ABOUT, REPAIR
from metasched.learners.networks import Network
from metasched.learners.predictor import Predictor
from metasched.references import mean, model_file
from metasched.references.model import ReferenceModel


def read_predictor(folder: Path, network: Network | None = None) -> Predictor:
    """Read the model in exactly this folder.

    ``network`` is for a model whose network was made in Python, or for a mean of such models.
    """
    kind = _kind(folder)
    if kind == "mean":
        return mean.read(folder, partial(_read_member, network=network))
    return _read_single(folder, kind, network)


def _read_single(folder: Path, kind: Any, network: Network | None) -> Predictor:
    if kind == "reference":
        return ReferenceModel(*model_file.read(folder))
    if kind is None:
        return read_model(folder, network)
    raise RunError(f"{folder / ABOUT}: unknown kind of model {kind!r}; install a newer metasched")


def _read_member(folder: Path, network: Network | None) -> Predictor:
    kind = _kind(folder)
    if kind == "mean":
        raise RunError(f"{folder}: is a mean inside a mean, which metasched never writes; {REPAIR}")
    # A reference model needs no network, and its folder says so.
    return _read_single(folder, kind, network)


def _kind(folder: Path) -> Any:
    """The kind of model according to ``model.json``. None for a network, whose file does not name a kind."""
    path = folder / ABOUT
    if not path.is_file():
        return None  # reading a network says what is missing
    return untrusted.read_json(path, dict[str, Any], REPAIR).get("kind")
