"""TensorBoard: event files under ``<out>/tensorboard``, one folder for each seed. Needs no TensorFlow."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metasched.optional import require
from metasched.runs.trackers import Description, Record, numbers


class TensorBoard:
    """Every number of a record as a scalar at the step of its update; ``run.json`` as text."""

    name = "tensorboard"
    folder = "tensorboard"

    def __init__(self) -> None:
        self._open = require("tensorboard.summary.writer.event_file_writer", "tensorboard").EventFileWriter
        self._event = require("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        self._summary = require("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self._tensor = require("tensorboard.compat.proto.tensor_pb2", "tensorboard").TensorProto
        self._writers: dict[int, Any] = {}

    def start(self, description: Description, folder: Path) -> None:
        """Open a writer for each seed. If a run continues, it adds a file to the existing ones."""
        self._tasks = description["about"]["tasks"]
        text = "```json\n" + json.dumps(description, indent=2) + "\n```"
        for seed in description["seeds"]:
            own = folder / f"seed-{seed}"
            new = not own.exists()
            self._writers[seed] = self._open(str(own))
            if new:
                self._add(seed, 0, [self._text("run", text)])

    def log(self, records: Sequence[Record]) -> None:
        """Write scalars, and flush them to the files."""
        for record in records:
            values = numbers(record, self._tasks).items()
            scalars = [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in values]
            self._add(record["seed"], record["update"], scalars)
        for seed in {record["seed"] for record in records}:
            self._writers[seed].flush()

    def finish(self, final: Mapping[int, Mapping[str, Any]]) -> None:  # noqa: ARG002
        """Close the files."""
        for writer in self._writers.values():
            writer.close()

    def _add(self, seed: int, step: int, values: Sequence[Any]) -> None:
        summary = self._summary.Summary(value=values)
        self._writers[seed].add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def _text(self, tag: str, text: str) -> Any:
        """A value for the text page: a tensor of one string."""
        plugin = self._summary.SummaryMetadata.PluginData(plugin_name="text")
        string = 7  # DT_STRING
        tensor = self._tensor(dtype=string, string_val=[text.encode()], tensor_shape={"dim": [{"size": 1}]})
        metadata = self._summary.SummaryMetadata(plugin_data=plugin)
        return self._summary.Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)
