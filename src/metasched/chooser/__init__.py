"""Ask/tell: any scheduler, in any training loop.

Where to find what: ``chooser`` has :class:`Chooser`, its lock, and everything that changes with each draw; ``setup``
has everything that does not change. ``mixture`` has fixed proportions and the compiled step. ``draws`` has a single
draw, and shares out its reward. ``history`` stores all draws and clips rewards. ``sources`` is the list of sources, and
``state`` checks a stored state. ``mix`` and ``streams`` build on all of these and read rows.
"""

from metasched.chooser.chooser import Chooser
from metasched.chooser.draws import Draw

__all__ = ["Chooser", "Draw"]
