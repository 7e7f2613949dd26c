"""Models changed by somebody who knows how their checksums are made."""

import hashlib
import json

from safetensors.numpy import load, save

from metasched.learners.model_file import LATER


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def reseal(folder, change=lambda model: None):
    """Change what ``model.json`` says of a model, and make its checksums fit."""
    path = folder / "model.json"
    content = json.loads(path.read_text())
    change(content["model"])
    # Fields that earlier models lack are hashed only where they say something.
    hashed = {name: value for name, value in content["model"].items() if value or name not in LATER}
    plain = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    content["model_sha256"] = hashlib.sha256(plain.encode()).hexdigest()
    if "weights_sha256" in content:
        content["weights_sha256"] = digest(folder / "model.safetensors")
    path.write_text(json.dumps(content))


def change_arrays(folder, change):
    """Change the arrays of a model, a dict by name, and make its checksums fit."""
    path = folder / "model.safetensors"
    arrays = {name: array.copy() for name, array in load(path.read_bytes()).items()}
    change(arrays)
    path.write_bytes(save(arrays))
    reseal(folder)
