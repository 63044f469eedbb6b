"""How the status file of dpkg begins where it was made of `dpkg -l`, which shows no relations
between packages.
"""

from __future__ import annotations

NO_RELATIONS = "X-Relations: not shown by dpkg -l\n"
