from types import SimpleNamespace

import pytest

from tiny_comparison import compared, divided


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A comparison of the default methods with reference models, where seeds draw their own labelled rows."""
    out, progress, notes = tmp_path_factory.mktemp("compared") / "a", [], []
    told = {"on_progress": lambda *each: progress.append(each), "on_note": notes.append}
    found = compared(divided(), None, seeds=4, references=True, out=out, **told)
    return SimpleNamespace(out=out, found=found, progress=progress, notes=notes)
