"""Text from `templates/` (Jinja2): the bodies of drop-ins and pages. Undefined names are errors,
not empty text.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hosttune.errors import HosttuneError

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment


@cache
def _make_environment() -> SandboxedEnvironment:
    # imported here: Jinja2 costs more than the whole start of a command that renders nothing
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    from hosttune.textfiles import template_text

    # the templates are ours; their values can come from rules of others
    return ImmutableSandboxedEnvironment(
        loader=jinja2.FunctionLoader(template_text),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),
    )


def render(name: str, /, **values: Any) -> str:
    """The text of template `name` with these values. Raises HosttuneError when the template is
    missing or wrong.
    """
    import jinja2

    try:
        return _make_environment().get_template(name).render(values)
    except (
        jinja2.TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        message = f"template {name}: {error.__class__.__name__}: {error}"
        raise HosttuneError(
            message,
            hint="name a template that exists, with the values that it takes (`vars`), or "
            "reinstall hosttune",
        ) from error
