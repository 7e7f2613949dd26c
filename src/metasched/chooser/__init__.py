"""Ask/tell: any scheduler, in any training loop.

To read it: ``chooser`` has :class:`Chooser`, its lock and what changes with every draw; ``setup`` what does not change;
``mixture`` fixed proportions and the compiled step; ``draws`` one draw and how its reward is shared out; ``history``
keeps all of them and clips rewards; ``sources`` knows which sources there are; ``state`` checks a stored state. ``mix``
and ``streams`` stand on top and read rows.
"""

from metasched.chooser.chooser import Chooser
from metasched.chooser.draws import Draw

__all__ = ["Chooser", "Draw"]
