"""A model as two files: ``model.safetensors`` has the weights, ``model.json`` everything else that is needed to
predict.

``model.json`` contains the SHA-256 of both, so that damage is noticed. Reading them runs no code.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from metasched import untrusted
from metasched.errors import RunError
from metasched.files import make_folder, write_whole
from metasched.learners.networks import Cnn, Mlp, Network, Size, Weights, build
from metasched.learners.predictor import Facts

Tensors: TypeAlias = dict[str, NDArray[Any]]
Tree = TypeVar("Tree")
Kind = TypeVar("Kind", bound="Content")

FORMAT = 1
WEIGHTS = "model.safetensors"
ABOUT = "model.json"
LARGEST_HEADER = 100 * 1024**2
"""The most bytes that safetensors itself allows for names and shapes."""
LATER: Mapping[str, Any] = {"metric": None, "centre": (), "scale": ()}
"""Fields that the first models did not have, and their values for these models."""
REPAIR = "copy the folder again, or train again"


class About(Facts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a trained network except its weights.

    ``network`` is None for a user's own network. ``heads`` has the number of classes of every head, with the target's
    head last. Each head has ``width`` outputs. In regression the network predicts (number − ``centre``) / ``scale``.
    """

    network: Mlp | Cnn | None
    heads: Annotated[tuple[Size, ...], Meta(min_length=1)]
    width: Size
    precision: Literal["float32", "bfloat16"]
    centre: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()


class Content(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of every ``model.json``. Each kind of model has more fields."""

    format: int
    model: Facts
    model_sha256: str


class _Content(Content, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the ``model.json`` of a network."""

    model: About
    weights_sha256: str


def write(folder: Path, about: About, weights: Weights) -> None:
    """Write both files, each completely or not at all. The folder is made if it does not exist."""
    make_folder(folder)
    # Weights first. A crash in between leaves a model.json whose checksum does not match. Such a model is refused. A
    # checksum that matches weights that are missing would be worse.
    digest = write_tensors(folder / WEIGHTS, flatten(weights))
    content = _Content(format=FORMAT, model=about, model_sha256=digest_of(about), weights_sha256=digest)
    write_content(folder, content)


def read(folder: Path, network: Network | None) -> tuple[About, Network, Weights]:
    """Read what :func:`write` wrote. ``network`` replaces the network that ``model.json`` names, if any."""
    content = read_content(folder, _Content)
    about = content.model
    if network is None:
        if about.network is None:
            raise RunError(
                f"{folder}: was trained with a network made in Python; load it in Python with ms.load_model(…, "
                "network=…)"
            )
        network = build(about.network)
    template = _template(folder, about, network)
    return about, network, _read_weights(folder / WEIGHTS, template, content.weights_sha256)


def digest_of(about: Facts) -> str:
    """The SHA-256 of the content of a model's ``model.json``."""
    plain = msgspec.to_builtins(about)
    # Earlier models would get other digests if a field that they lack were part of the hash.
    known = {name: value for name, value in plain.items() if name not in LATER or getattr(about, name) != LATER[name]}
    return hashlib.sha256(msgspec.json.encode(known, order="sorted")).hexdigest()


def write_content(folder: Path, content: Content) -> None:
    """Write ``model.json``, the last file of a model."""
    write_whole(folder / ABOUT, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def read_content(folder: Path, form: type[Kind]) -> Kind:
    """Read the ``model.json`` of a kind of model, and check its checksum."""
    path = folder / ABOUT
    if not path.is_file():
        raise RunError(f"{folder}: has no model (no {ABOUT}); give a saved model or a run that has ended")
    content = untrusted.read_json(path, dict[str, Any], REPAIR)
    version = untrusted.checked(content.get("format"), int, path, REPAIR)
    if version > FORMAT:
        raise RunError(
            f"{path}: was written by a newer metasched (format {version}, this one reads {FORMAT}); "
            "install a newer metasched"
        )
    whole = untrusted.checked(content, form, path, REPAIR)
    if version != FORMAT or whole.model_sha256 != digest_of(whole.model):
        raise RunError(f"{path}: is damaged (its checksum does not match); {REPAIR}")
    return whole


def _template(folder: Path, about: About, network: Network) -> Weights:
    """Shapes and types of the weights, without computing any. Refuse a network whose outputs do not fit the model."""
    inputs = jax.ShapeDtypeStruct((1, *about.shape), "float32")  # type: ignore[no-untyped-call]
    template = jax.eval_shape(network.init, jax.random.key(0), inputs)
    found = jax.eval_shape(network.apply, template, inputs).shape
    wanted = len(about.heads) * about.width
    named = about.variance is not None or len(about.classes) == about.heads[-1] <= about.width
    if len(found) != 2 or not named or (about.variance is None and found[1] != wanted):
        raise RunError(
            f"{folder}: the network returns outputs {found}, but the model needs (1, {wanted}); give the network "
            "that it was trained with"
        )
    if any(len(part) not in (0, found[1]) for part in (about.centre, about.scale)):
        raise RunError(f"{folder / ABOUT}: is damaged (centre and scale are not for {found[1]} numbers); {REPAIR}")
    return template


def _read_weights(path: Path, template: Weights, digest: str) -> Weights:
    expected = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(template))
    tensors = read_tensors(path, expected + LARGEST_HEADER, digest)
    return unflatten(template, tensors, str(path), "network")


def write_tensors(path: Path, tensors: Tensors) -> str:
    """Write named arrays, and return the SHA-256 of the file."""
    stored = format_tensors(tensors)
    write_whole(path, stored)
    return hashlib.sha256(stored).hexdigest()


def read_tensors(path: Path, largest: int, digest: str) -> Tensors:
    """Read the named arrays of a file with at most ``largest`` bytes and this SHA-256."""
    stored = untrusted.read_bytes(path, largest, REPAIR)
    if hashlib.sha256(stored).hexdigest() != digest:
        raise RunError(f"{path}: is damaged (its SHA-256 is not the one in {ABOUT}); {REPAIR}")
    try:
        return parse_tensors(stored)
    except (SafetensorError, KeyError) as error:
        raise RunError(f"{path}: is damaged ({error}); {REPAIR}") from None


# Pytrees of arrays as named arrays, and back: how models and checkpoints store them


def flatten(tree: Any) -> Tensors:
    """Every array of a pytree under the path of its leaf.

    >>> list(flatten([{"w": np.zeros(2)}]))
    ["[0]['w']"]
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def size(tree: Any) -> int:
    """The bytes of all arrays of a pytree.

    >>> size([{"w": np.zeros(2, np.float32)}])
    8
    """
    return sum(int(leaf.nbytes) for leaf in jax.tree.leaves(tree))


def unflatten(template: Tree, tensors: Mapping[str, NDArray[Any]], holder: str, kind: str) -> Tree:
    """Rebuild the pytree that :func:`flatten` took apart. ``template`` gives its structure, shapes and types.

    An error names the ``holder`` of the arrays, and the ``kind`` of thing (run, network) that they should belong to.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        stored = tensors.get(name)
        if stored is None or stored.shape != leaf.shape or stored.dtype != leaf.dtype:
            raise RunError(f"{holder} has no array '{name}' of shape {leaf.shape}; it belongs to another {kind}")
        restored.append(jnp.asarray(stored))
    tree: Tree = jax.tree_util.tree_unflatten(structure, restored)
    return tree
