"""Every format that metasched reads: good files, how each is damaged, and who reads it."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

import metasched as ms
from campaign import states
from campaign.mutate import Edit, edits, json_edits
from metasched.chooser import Chooser
from metasched.comparison.place import stored
from metasched.comparison.stored import StoredOutputs
from metasched.datasets.npz import read_npy
from metasched.datasets.rows import Reading, read_rows
from metasched.experiments.datasets import cifar100, climatenet, extreme_weather, glyphs, mnist, reviews, uci
from metasched.experiments.evidence import Evidence, LabelOrder, ScaledError
from metasched.learners import model_file
from metasched.references.mean import mean_of
from metasched.references.recipes import Recipe, fit_recipe
from metasched.report import remarks, results
from metasched.runs import checkpoint, folder, outcome, records

UNLABELLED = {"unlabelled/inputs": np.linspace(-1, 1, 9, dtype="f4").reshape(3, 3)}
_MIXTURE = b"""{
    "sources": [{"name": "web", "size": 10000, "weight": 3}, {"name": "books", "path": "a", "weight": 1.5}],
    "scheduler": "thompson",
    "stages": [{"from": 5000, "weights": {"web": 1, "books": 1}}],
    "ramp": true, "batch_size": 4, "batching": "mixed", "seed": 3, "min_share": 0.1, "prior": 9,
    "options": {"forget": 0.99}
}"""
Damage = Callable[[Random, Sequence[bytes]], list[Edit]]


class Format(NamedTuple):
    """``read(content, empty folder)`` must end well or in one line, whatever ``damage`` did to one of ``good``."""

    good: tuple[bytes, ...]
    damage: Damage
    read: Callable[[bytes, Path], object]


def prepare(place: Path) -> None:
    """Train the smallest run there is, once: its folder holds a model, an outcome, records and a checkpoint."""
    config = ms.Joint(updates=2, batches_per_update=1, batch_size=2, eval_every=1)
    if find_spec("h5py"):
        _write_hdf5(place / "weather.h5")
    ms.train(_tasks(), "uniform", network="mlp", learner=config, out=place / "run", checkpoint_seconds=0)
    asked = {"learner": config, "network": "mlp", "seeds": 2, "tune": False, "references": False}
    ms.compare(_tasks(), ["uniform"], **asked, out=place / "comparison")
    linear = fit_recipe(Recipe("linear", "pooled"), _tasks())
    linear.save(place / "reference")
    mean_of([linear, fit_recipe(Recipe("majority", "target"), _tasks())], [3.0, 1.0]).save(place / "mean")


def formats(place: Path) -> dict[str, Format]:
    """All formats that can be read here; ``place`` is where :func:`prepare` was."""
    run = place / "run"
    files = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    report = {name: (place / "comparison" / name).read_bytes() for name in ("outcomes.jsonl", "remarks.json")}
    found = {
        "npz": Format((_npz(),), _in_zip, lambda content, at: ms.datasets.load(_put(at / "a.npz", content))),
        "npz rows": Format(
            (_npz(),),
            _in_zip,
            lambda content, at: read_rows(_put(at / "a.npz", content), Reading((3,), None, ("yes", "no"))),
        ),
        "npy": Format((_npy(),), edits, lambda content, at: read_npy(_put(at / "a.npy", content))),
        "idx": Format((_idx(),), _in_gzip, lambda content, at: mnist.read_idx(_put(at / "a.gz", content))),
        "climatenet": Format((_climatenet(),), _in_gzip, lambda content, at: climatenet.read(_put(at / "a", content))),
        "hoda": Format((_hoda(),), edits, lambda content, at: glyphs.hoda(_put(at / "a", content))),
        "optdigits": Format((_digits(),), edits, lambda content, at: uci.parse_optdigits(_put(at / "a", content))),
        "reviews": Format(
            (b"1\tgood book\n0\tbad\n",), edits, lambda content, at: reviews.parse(_put(at / "a", content))
        ),
        "cifar archive": Format((_archive(),), _in_gzip, _read_archive),
        "cifar pickle": Format(_pickles(), edits, lambda content, _: cifar100.read_pickle(content, "a")),
        "numbers for a model": Format(
            (b"a,b,c\n1,2,3\n4,5,6e1\n",),
            edits,
            lambda content, at: read_rows(_put(at / "a.csv", content), Reading((3,), None, ("a",))),
        ),
        "chooser state": Format(_states(), _json_or_bytes, _read_state),
        "prompt chooser state": Format(_prompt_states(), _json_or_bytes, _read_prompt_state),
        "model.json": Format((files["model.json"],), _json_or_bytes, _reads_model(files)),
        "model.safetensors": Format((files["model.safetensors"],), edits, _reads_weights(files)),
        "reference model.json": _in_tree(place / "reference", "model.json", _json_or_bytes, ms.load_model),
        "reference model.safetensors": _in_tree(place / "reference", "model.safetensors", edits, ms.load_model),
        "mean model.json": _in_tree(place / "mean", "model.json", _json_or_bytes, ms.load_model),
        "comparison.json": Format(
            ((place / "comparison" / "comparison.json").read_bytes(),),
            _json_or_bytes,
            lambda content, at: stored(_put(at / "comparison.json", content).parent),
        ),
        "remarks.json": Format(
            (report["remarks.json"],),
            _json_or_bytes,
            _in_run("remarks.json", report, lambda at: (remarks.read(at / "remarks.json"), results.load([at]))),
        ),
        "predictions": Format(
            (json.dumps({"key": "split, model", "outputs": "AACAPwAAgD8="}).encode() + b"\n",),
            _lines,
            lambda content, at: _read_predictions(_put(at / "judging.jsonl", content)),
        ),
        "evidence.json": Format(
            (_evidence(),), _json_or_bytes, lambda content, at: results.load([_put(at / "evidence.json", content)])
        ),
        "run.json": Format((files["run.json"],), _json_or_bytes, _in_run("run.json", files, folder.describe)),
        "metrics": Format((files["metrics.jsonl"],), _lines, _in_run("metrics.jsonl", files, records.read)),
        "outcome": Format(
            (files["outcome.jsonl"],),
            _lines,
            _in_run("outcome.jsonl", files, lambda at: (list(outcome.read(at / "outcome.jsonl")), results.load([at]))),
        ),
        "packed outcomes": Format(
            (gzip.compress(2 * files["outcome.jsonl"], mtime=0),),
            _in_gzip,
            lambda content, at: list(outcome.read(_put(at / "a.jsonl.gz", content))),
        ),
        "checkpoint": Format(
            (files["checkpoint.safetensors"],),
            edits,
            _in_run("checkpoint.safetensors", files, lambda at: (checkpoint.load(at, 2**24), checkpoint.updates(at))),
        ),
    }
    mixture = json.loads(_MIXTURE)
    found["mixture.json"] = Format((_MIXTURE,), _json_or_bytes, lambda content, at: _mixture(at / "a.json", content))
    if find_spec("yaml"):
        import yaml

        text = yaml.safe_dump(mixture).encode()
        found["mixture.yaml"] = Format((text,), edits, lambda content, at: _mixture(at / "a.yaml", content))
    if find_spec("transformers"):
        found["trainer schedule"] = Format(_schedules(), _in_safetensors, _read_schedule)
    for name, keeper in states.keepers().items():
        found[name] = Format((states.good(keeper),), _json_or_bytes, states.reader(keeper))
    found["npz unlabelled"] = Format(
        (_npz(UNLABELLED),), _in_zip, lambda content, at: ms.datasets.load(_put(at / "a.npz", content))
    )
    if find_spec("pyarrow"):
        table = b"source,x,k,label\n" + b"".join(b"%d,%d.5,w%d,l%d\n" % (n % 3, n, n % 2, n % 2) for n in range(24))
        found["csv"] = Format((table,), edits, lambda content, at: _columns(_put(at / "a.csv", content)))
        found["tsv"] = Format(
            (table.replace(b",", b"\t"),), edits, lambda content, at: _columns(_put(at / "a.tsv", content))
        )
        blank = b"".join(b"2,%d.5,w%d,\n" % (n, n % 2) for n in range(5))
        found["csv unlabelled"] = Format(
            (table + blank,), edits, lambda content, at: _columns(_put(at / "a.csv", content))
        )
        found["unlabelled rows"] = Format(
            (b"x,k\n" + b"".join(b"%d.5,w%d\n" % (n, n % 2) for n in range(5)),),
            edits,
            lambda content, at: ms.datasets.load(
                _put(at / "a.csv", table), target="2", unlabelled=_put(at / "more.csv", content)
            ),
        )
        found["parquet"] = Format((_parquet(),), edits, lambda content, at: _columns(_put(at / "a.parquet", content)))
    if find_spec("PIL"):
        found["image"] = Format(_images(), edits, _read_images)
    if find_spec("h5py"):
        found["hdf5"] = Format(((place / "weather.h5").read_bytes(),), edits, _read_hdf5)
    return found


def _in_tree(folder: Path, name: str, damage: Damage, read: Callable[[Path], object]) -> Format:
    """A folder, with all that lies in it, in which one file is damaged."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return Format((files[name],), damage, _in_run(name, files, read))


def _put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _json_or_bytes(chance: Random, others: Sequence[bytes]) -> list[Edit]:
    return edits(chance, others) if chance.random() < 0.3 else json_edits(chance)


def _lines(chance: Random, others: Sequence[bytes]) -> list[Edit]:
    """Damage to one line of JSON, or to the bytes."""
    if chance.random() < 0.3:
        return edits(chance, others)
    at = chance.random()

    def of_line(edit: Edit) -> Edit:
        def apply(content: bytes) -> bytes:
            lines = content.split(b"\n")
            number = int(at * max(1, len(lines) - 1))
            return b"\n".join([*lines[:number], edit(lines[number]), *lines[number + 1 :]])

        return apply

    return [of_line(edit) for edit in json_edits(chance)]


def _in_gzip(chance: Random, others: Sequence[bytes]) -> list[Edit]:
    """Damage to what is packed, packed again, or to the packed bytes."""
    if chance.random() < 0.2:
        return edits(chance, others)

    def inside(edit: Edit) -> Edit:
        def apply(content: bytes) -> bytes:
            return gzip.compress(edit(gzip.decompress(content)), 1)

        return apply

    return [inside(edit) for edit in edits(chance, [gzip.decompress(one) for one in others])]


def _in_safetensors(chance: Random, others: Sequence[bytes]) -> list[Edit]:
    """Damage to the facts, stored again with the arrays, or to the bytes."""
    if chance.random() < 0.3:
        return edits(chance, others)

    def inside(edit: Edit) -> Edit:
        def apply(content: bytes) -> bytes:
            size = int.from_bytes(content[:8], "little")
            header = json.loads(content[8 : 8 + size])
            told = header["__metadata__"]["facts"].encode()
            header["__metadata__"]["facts"] = edit(told).decode("utf-8", "replace")
            packed = json.dumps(header).encode()
            return len(packed).to_bytes(8, "little") + packed + content[8 + size :]

        return apply

    return [inside(edit) for edit in json_edits(chance)]


def _in_zip(chance: Random, others: Sequence[bytes]) -> list[Edit]:
    """Damage to one member, packed again with its checksum, or to the archive."""
    if chance.random() < 0.4:
        return edits(chance, others)
    at, method = chance.random(), chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))

    def inside(edit: Edit) -> Edit:
        def apply(content: bytes) -> bytes:
            members = dict(_members(content))
            damaged = list(members)[int(at * len(members))]
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", method) as archive:
                for name, inner in members.items():
                    archive.writestr(name, edit(inner) if name == damaged else inner)
            return packed.getvalue()

        return apply

    return [inside(edit) for edit in edits(chance, others)]


def _members(content: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)


def _tasks() -> ms.TaskSet:
    chance = np.random.default_rng(0)

    def rows(count: int) -> tuple[Any, Any]:
        return chance.normal(size=(count, 3)).astype("f4"), np.arange(count) % 2

    return ms.TaskSet.from_arrays(
        {"a": rows(6), "b": rows(5)}, validation=rows(4), test=rows(4), classes=["yes", "no"], name="small"
    )


def _npz(more: Mapping[str, Any] = MappingProxyType({})) -> bytes:
    tasks, packed = _tasks(), io.BytesIO()
    arrays: dict[str, Any] = dict(more)
    for name, part, _ in tasks.parts():
        key = name if name in ("validation", "test") else f"tasks/{name}"
        arrays |= {f"{key}/inputs": part.inputs, f"{key}/labels": part.labels}
    np.savez(packed, **arrays, classes=np.array(tasks.classes))
    return packed.getvalue()


def _npy() -> bytes:
    packed = io.BytesIO()
    np.save(packed, np.arange(12, dtype="i4").reshape(3, 4))
    return packed.getvalue()


def _idx() -> bytes:
    return gzip.compress(b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 3, 4)) + bytes(range(24)), 1)


def _climatenet() -> bytes:
    lines = [",".join(["", "lat", "lon", *climatenet.VARIABLES, "time", "Label"])]
    lines += [",".join(map(str, [n, n, 2 * n, *range(16), 19960101 + n, n % 3])) for n in range(4)]
    return gzip.compress("\n".join(lines).encode(), 1)


def _hoda() -> bytes:
    record = bytes([255, 3, 2, 2, 2, 0, 2, 2])
    return bytes(6) + (2).to_bytes(4, "little") + bytes(1014) + record * 2


def _digits() -> bytes:
    return b"".join(b",".join(b"%d" % ((n * k) % 17) for k in range(64)) + b",%d\n" % n for n in range(3))


def _pickles() -> tuple[bytes, ...]:
    return tuple(pickle.dumps(_batch(), protocol) for protocol in (3, 4))


def _batch() -> dict[bytes, Any]:
    data = np.arange(2 * 3072, dtype=np.uint64).astype(np.uint8).reshape(2, 3072)
    return {b"fine_labels": [0, 1], b"coarse_labels": [0, 0], b"data": data}


def _archive() -> bytes:
    meta = {b"fine_label_names": [b"cod", b"eel"], b"coarse_label_names": [b"fish"]}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, value in (("meta", meta), ("train", _batch()), ("test", _batch())):
            info, content = tarfile.TarInfo(f"cifar-100-python/{name}"), pickle.dumps(value, 3)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), 1)


def _read_archive(content: bytes, at: Path) -> object:
    return cifar100.from_archive(_put(at / "a.tar.gz", content), ("fish",), {})


def _columns(path: Path) -> ms.TaskSet:
    return ms.datasets.load(path, target="2", target_labels=4)


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    columns = {
        "source": ["0", "1", "2"] * 8,
        "x": [n / 2 for n in range(24)],
        "k": ["u", "v"] * 12,
        "label": [0, 1] * 12,
    }
    packed = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), packed)
    return packed.getvalue()


def _images() -> tuple[bytes, ...]:
    from PIL import Image

    picture = Image.fromarray(np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3))
    found = []
    for name in ("PNG", "JPEG", "GIF", "BMP", "PPM", "TIFF", "WEBP"):
        packed = io.BytesIO()
        picture.save(packed, name)
        found.append(packed.getvalue())
    return tuple(found)


def _read_images(content: bytes, at: Path) -> object:
    root = at / "root"
    for part in ("task", "validation", "test"):
        (root / part / "a").mkdir(parents=True, exist_ok=True)
        _put(root / part / "a" / "1.png", content)
    return ms.datasets.load(root, allow_overlap=True)


def _write_hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["images"] = np.ones((2, 16, 8, 9), "f4")
        boxes = file.create_dataset("boxes", (2, 15, 5), "i4", chunks=(1, 15, 5), compression="gzip", fillvalue=-1)
        boxes[:, 0] = [1, 1, 5, 6, 2]
        file.attrs["simulated"] = True


def _mixture(path: Path, content: bytes) -> object:
    """A mixture that is taken makes a chooser."""
    _put(path.parent / "a", b"rows")
    sources, scheduler, options = ms.read_mixture(_put(path, content))
    return Chooser(scheduler, {name: one if type(one) is int else None for name, one in sources.items()}, **options)


def _read_hdf5(content: bytes, at: Path) -> object:
    path = _put(at / "a.h5", content)
    extreme_weather.is_simulated(path)
    return extreme_weather.read_windows(path, extreme_weather.read_boxes(path), (0, 3), size=4)


@cache
def _one_chooser() -> Chooser:
    """One for all attempts: a state that it takes over is a state that it could be in."""
    return _chooser()


@cache
def _one_of_prompts() -> ms.PromptChooser:
    return _prompts()


def _chooser() -> Chooser:
    return Chooser("ucb", {"web": 10, "books": None}, 2, seed=3)


def _states() -> tuple[bytes, ...]:
    chooser = _chooser()
    for reward in (0.5, 1.0, -2.0):
        chooser.tell(chooser.ask(), reward)
    chooser.ask()
    return (_stored(chooser),)


def _prompts() -> ms.PromptChooser:
    return ms.PromptChooser(["easy", "hard"] * 5, group_size=2, patience=4, seed=3)


def _prompt_states() -> tuple[bytes, ...]:
    """One prompt has half of its values, some wait, and one has been given up."""
    chooser = _prompts()
    chooser.observe(chooser.next(3)[[1, 1, 2]], [1.0, -1.0, 0.5])
    chooser.next(3)
    return (_stored(chooser),)


def _stored(chooser: Chooser | ms.PromptChooser) -> bytes:
    stored = chooser.state_dict()
    arrays = {name: [one.dtype.str, one.shape, one.tolist()] for name, one in stored["arrays"].items()}
    return json.dumps({"facts": stored["facts"], "arrays": arrays}).encode()


def _schedules() -> tuple[bytes, ...]:
    """As trainers store them with their checkpoints: of sources and of prompts."""
    from metasched.transformers import checkpoint as schedule

    with tempfile.TemporaryDirectory() as folder:
        found = []
        for content, take in ((_states()[0], _one_chooser()), (_prompt_states()[0], _one_of_prompts())):
            _taken(content, take)
            facts = {"streams": {"web": {"pass": 1, "read": 7}}, "target_reads": 3, "step": 3}
            schedule.store(Path(folder), take.state_dict(), **facts)
            found.append((Path(folder) / schedule.SCHEDULE).read_bytes())
    return tuple(found)


def _read_schedule(content: bytes, at: Path) -> object:
    from metasched.transformers import checkpoint as schedule

    facts, state = schedule.load(_put(at / schedule.SCHEDULE, content).parent, "step", "target_reads")
    told = state["facts"]
    chooser = _one_of_prompts() if isinstance(told, dict) and "prompts" in told else _one_chooser()
    chooser.load_state_dict(state)
    return facts


def _evidence() -> bytes:
    error = ScaledError((1.0, 2.0), {"yes": (0.5, None)}, exponent=-0.5)
    moves = {"web": ((0.5, 0.5), (0.0, 1.0))}
    order = (LabelOrder(task="web", rows=9, p_permutation=0.25),)
    known = Evidence(format=1, kind="evidence", experiment="digits", simulated=False, order=order, transitions=moves)
    return msgspec.json.encode(msgspec.structs.replace(known, classes=("yes", "no"), scaled_error=error))


def _read_predictions(path: Path) -> object:
    outputs = StoredOutputs(path)
    return outputs.read("split, model", 2) if "split, model" in outputs else None


def _read_state(content: bytes, _: Path) -> object:
    """A state that is taken leaves a chooser that works."""
    chooser = _taken(content, _one_chooser())
    if chooser is None:
        return None
    chooser.tell(chooser.ask(), 1.0)
    return chooser.shares()


def _read_prompt_state(content: bytes, _: Path) -> object:
    """The same of a chooser of prompts."""
    chooser = _taken(content, _one_of_prompts())
    if chooser is None:
        return None
    prompt = chooser.next(1)
    chooser.observe(prompt, [1.0])
    chooser.forget(prompt)
    return chooser.metrics()


_Either = TypeVar("_Either", Chooser, ms.PromptChooser)


def _taken(content: bytes, chooser: _Either) -> _Either | None:
    """The chooser with that state; a state that is refused changes nothing."""
    try:
        stored = json.loads(content)
        stored["arrays"] = {name: np.array(one[2], one[0]).reshape(one[1]) for name, one in stored["arrays"].items()}
    except Exception:  # no state dict at all: nothing of ours has read it
        return None
    before = _stored(chooser)
    try:
        chooser.load_state_dict(stored)
    except ms.errors.MetaschedError:
        if before != _stored(chooser):
            raise AssertionError("a refused state has changed the chooser") from None
        raise
    return chooser


def _in_run(name: str, files: dict[str, bytes], read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """A run folder in which one file is damaged."""

    def reads(content: bytes, at: Path) -> object:
        for other, whole in files.items():
            _put(at / other, content if other == name else whole)
        return read(at)

    return reads


def _reads_model(files: dict[str, bytes]) -> Callable[[bytes, Path], object]:
    """A model whose description is damaged, and signed again where it can be."""

    def reads(content: bytes, at: Path) -> object:
        try:
            value = json.loads(content)
            about = msgspec.convert(value["model"], model_file.About)
            value["model_sha256"] = model_file.digest_of(about)
            content = json.dumps(value).encode()
        except (ValueError, RecursionError, KeyError, TypeError, msgspec.MsgspecError):
            pass
        _put(at / "model.json", content)
        _put(at / "model.safetensors", files["model.safetensors"])
        return ms.load_model(at)

    return reads


def _reads_weights(files: dict[str, bytes]) -> Callable[[bytes, Path], object]:
    """A model whose weights are damaged, and whose description vouches for them."""
    about = json.loads(files["model.json"])

    def reads(content: bytes, at: Path) -> object:
        signed = {**about, "weights_sha256": hashlib.sha256(content).hexdigest()}
        _put(at / "model.json", json.dumps(signed).encode())
        _put(at / "model.safetensors", content)
        return ms.load_model(at)

    return reads
