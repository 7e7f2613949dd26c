"""How results look in a notebook: tables with small drawings, and a line that shows progress."""
