"""``python -m metasched``."""

from metasched.cli import main

main()
