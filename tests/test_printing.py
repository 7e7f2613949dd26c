import pytest

from metasched.printing import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Ünïcode ☃ 漢字", "plain Ünïcode ☃ 漢字"),
        ("\x1b[31m\x07", r"\x1b[31m\x07"),
        ("a\nb\tc\r", "a\nb\tc\\x0d"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("\u202egnp.exe\u2028", r"\u202egnp.exe\u2028"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_steers_a_terminal_or_hides_is_written_out(text, shown):
    assert printable(text, keep="\n\t") == shown
    shown.encode()
