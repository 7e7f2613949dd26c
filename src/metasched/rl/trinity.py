"""Trinity-RFT: a selector that chooses tasks by how much their levels teach. Only this file imports ``trinity``.

Put this into the configuration of a task set. ``pass_rate_calculator``, which sends each task's mean reward back, must
be among the operators of the experience pipeline::

    data_selector:
      selector_type: metasched.rl.trinity.PromptSelector
      feature_keys: [level]            # the column that says which level or family a task is of
      kwargs: {memory: 100}            # of PromptChooser
"""

import base64
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from metasched.errors import ConfigError
from metasched.optional import require
from metasched.rl.prompts import PromptChooser

BaseSelector: Any = require("trinity.buffer.selector.selector").BaseSelector


class PromptSelector(BaseSelector):  # type: ignore[misc]
    """A :class:`~metasched.PromptChooser` as a selector for Trinity-RFT.

    Args:
        data_source: the reader of the task set.
        config: its ``data_selector``: one name under ``feature_keys``, and options of the chooser under ``kwargs``.
            By default values are ``"successes"``. For rewards outside 0 … 1 give ``values: numbers``.

    Attributes:
        chooser: the chooser.
    """

    def __init__(self, data_source: Any, config: Any) -> None:
        super().__init__(data_source, config)
        if len(config.feature_keys) != 1:
            raise ConfigError(f"feature_keys is {config.feature_keys}; give the one column that has the levels")
        options = {"values": "successes", "seed": config.seed, **config.kwargs}
        self.chooser = PromptChooser(data_source.dataset, config.feature_keys[0], **options)

    def get_indices(self, batch_size: int, return_extra_info: bool = False) -> Any:
        """Choose the next tasks.

        Args:
            batch_size: the number of tasks.
            return_extra_info: whether metrics are returned, too.

        Returns:
            Their indices.
        """
        indices = self.chooser.next(batch_size).tolist()
        return (indices, self.chooser.metrics()) if return_extra_info else indices

    def feedback(self, indices: Any, values: Any) -> None:
        """Report the values of tasks. Values for tasks that do not wait, as after a restart, are ignored.

        Args:
            indices: of the tasks.
            values: the mean reward of each.
        """
        expected = np.isin(np.asarray(indices, np.int64), self.chooser.waiting())
        self.chooser.observe(np.asarray(indices, np.int64)[expected], np.asarray(values, np.float64)[expected])

    def state_dict(self) -> dict[str, Any]:
        """The state of the chooser as JSON, in the form that Trinity stores.

        Returns:
            ``facts`` and, in base64, ``arrays``.
        """
        state = self.chooser.state_dict()
        return {"facts": state["facts"], "arrays": base64.b64encode(save(state["arrays"])).decode("ascii")}

    def load_state_dict(self, state_dict: Any) -> None:
        """Continue from a state. That of another selector, as at the first start, is ignored.

        Args:
            state_dict: the result of :meth:`state_dict`.
        """
        if "facts" in state_dict:
            try:
                arrays = load(base64.b64decode(state_dict["arrays"]))
            except (KeyError, TypeError, ValueError, SafetensorError):
                raise ConfigError("the selector's state is damaged; take an older one") from None
            self.chooser.load_state_dict({"facts": state_dict["facts"], "arrays": arrays})
