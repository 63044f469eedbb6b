"""Regular expressions that are compiled at their first use: a run uses a third of those that it
imports, and compiling all of them took a tenth of it.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Late:
    """As `re.Pattern`; what was once asked for is found at once."""

    def __init__(self, text: Any, flags: int) -> None:
        self._asked = (text, flags)

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look for such names, also before `_asked` is there.
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._asked), name)
        setattr(self, name, found)
        return found


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern, for the names of a module; what is used where it is made is `re.compile`."""
    return cast("re.Pattern[AnyStr]", _Late(text, flags))
