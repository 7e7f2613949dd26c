"""Ask/tell: any scheduler, in any training loop."""

from metasched.chooser.chooser import Chooser
from metasched.chooser.draw import Draw

__all__ = ["Chooser", "Draw"]
