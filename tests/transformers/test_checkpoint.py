"""What a checkpoint holds of a schedule: damage is refused in one line, and one that is not whole is passed over."""

import pytest

pytest.importorskip("transformers")
from safetensors.numpy import save

from metasched.errors import RunError
from metasched.transformers.checkpoint import SCHEDULE, load, newest

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "facts",
    [
        '{"chooser": {}}',
        '{"chooser": {}, "step": -1}',
        '{"chooser": {}, "step": "x"}',
        '{"chooser": {}, "step": Infinity}',
        '{"chooser": {}, "step": 1, "streams": [1]}',
        '{"step": 1}',
        DEEP,
    ],
)
def test_damaged_facts_are_refused_in_one_line(tmp_path, facts):
    (tmp_path / SCHEDULE).write_bytes(save({}, metadata={"facts": facts}))
    with pytest.raises(RunError, match=r"schedule\.safetensors: is damaged; continue from an older checkpoint"):
        load(tmp_path, "step")


@pytest.mark.parametrize("state", ["", DEEP])
def test_a_checkpoint_that_is_not_whole_is_passed_over(tmp_path, state):
    for number, told in ((2, "{}"), (10, state)):
        (tmp_path / f"checkpoint-{number}").mkdir()
        (tmp_path / f"checkpoint-{number}" / "trainer_state.json").write_text(told)
    with pytest.warns(UserWarning, match="checkpoint-10 is incomplete and is skipped"):
        assert newest(tmp_path) == tmp_path / "checkpoint-2"
