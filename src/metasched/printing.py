"""How names from files are shown."""

import unicodedata


def printable(text: str, keep: str = "") -> str:
    r"""Escape characters of ``text`` that could steer a terminal or hide something, such as ``\x1b``, except those in
    ``keep``.

    >>> print(printable("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    if text.isprintable():
        return text
    return "".join(
        each if each in keep or unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else _escaped(each)
        for each in text
    )


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
