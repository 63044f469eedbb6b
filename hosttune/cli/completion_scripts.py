"""Completion for bash, zsh and fish, with every word in it: no key press starts a program.

The scripts that typer makes start hosttune at each key press, split words at spaces and, for zsh,
are no file of compinit; so these are made from the command tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.cli.command_tree import Command, Parameter

LONG = 60  # more words than these, commands included, are the ids of the rules: written once


def bash(root: Command) -> str:
    """One function: which command this is, what the option before wants, else options or
    arguments.
    """
    commands = list(root.walk())
    paths = "|".join("/".join(("", *command.path)) for command in commands if command.path)
    wanted, words = [], []
    for command in commands:
        name = "/".join(("", *command.path)) if command.path else ""
        wanted += [
            f"        {_make_pattern(name, option)}) {_bash_values(option)} ;;\n"
            for option in command.options
            if option.takes_value
        ]
        options = [name for option in command.options for name in option.names]
        below = [one.path[-1] for one in command.commands]
        arguments = [value for one in command.arguments for value in one.values] + below
        is_file = "file " if any(one.is_file for one in command.arguments) else ""
        words.append(f"        '{name} -') words={_bash_words(options)} ;;\n")
        if is_file or arguments:
            words.append(
                f"        '{name} ') kind={is_file.strip() or 'word'} "
                f"words={_bash_list(arguments)} ;;\n"
            )
    return f"""\
# bash completion for hosttune, made from its command tree

_hosttune() {{
    local IFS=$'\\n' cur=${{COMP_WORDS[COMP_CWORD]}} option=${{COMP_WORDS[COMP_CWORD - 1]}}
    local command= kind= words= i
    local rules={_bash_words(root.rules)}
    for ((i = 1; i < COMP_CWORD; i++)); do
        case $command/${{COMP_WORDS[i]}} in
            {paths}) command=$command/${{COMP_WORDS[i]}} ;;
        esac
    done
    # The shell cuts --option=VALUE at the =.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $option == = ]]; then
        option=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    case "$command $option" in
{"".join(wanted)}        *)
            local start=
            [[ $cur != -* ]] || start=-
            case "$command $start" in
{"".join("    " + line for line in words)}            esac
            ;;
    esac
    COMPREPLY=()
    if [[ $kind == file ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")  # not to be expanded: a file may be called *
    elif [[ $kind != none ]]; then
        for i in $(compgen -W "$words" -- "$cur"); do
            COMPREPLY+=("$(printf %q "$i")")
        done
    fi
}}

complete -F _hosttune hosttune
"""


def _make_pattern(command: str, option: Parameter) -> str:
    return "|".join(f"'{command} {name}'" for name in option.names)


def _bash_values(option: Parameter) -> str:
    if option.values:
        return f"kind=word words={_bash_list(option.values)}"
    return f"kind={'file' if option.is_file else 'none'}"


def _bash_list(words: tuple[str, ...] | list[str]) -> str:
    return "$rules" if len(words) > LONG else _bash_words(words)


def _bash_words(words: tuple[str, ...] | list[str]) -> str:
    """The words as one word of the shell, a line each. None of them holds a quote."""
    return "$'" + "\\n".join(words) + "'"


def zsh(root: Command) -> str:
    """A function for each command, by _arguments and _describe (zshcompsys(1))."""
    functions = "\n".join(_zsh_function(command) for command in root.walk())
    rules = f'_hosttune-rule-ids() {{\n    compadd "$@" -- {" ".join(root.rules)}\n}}\n'
    head = "#compdef hosttune\n# made from the command tree of hosttune\n"
    return f'{head}\n{rules}\n{functions}\n_hosttune "$@"\n'


def _zsh_function(command: Command) -> str:
    lines = [f"_{'_'.join(('hosttune', *command.path))}() {{"]
    specs = [_zsh_option(option) for option in command.options]
    if command.commands:
        specs += ["'1: :->command'", "'*:: :->rest'"]
        lines += [
            "    local line state state_descr context",
            "    local -A opt_args",
            "    local -a commands",
        ]
        lines += [
            f"    commands=({' '.join(_quote(_describe_command(one)) for one in command.commands)})"
        ]
    specs += [_zsh_argument(argument) for argument in command.arguments]
    lines.append(
        f"    _arguments {'-C ' if command.commands else ''}-s -S \\\n        "
        + " \\\n        ".join(specs)
    )
    if command.commands:
        name = "_".join(("_hosttune", *command.path))
        lines += [
            "    case $state in",
            "        command) _describe command commands ;;",
            "        rest)",
        ]
        lines += [
            f"            (( $+functions[{name}_$line[1]] )) && {name}_$line[1]",
            "            ;;",
            "    esac",
        ]
    return "\n".join([*lines, "}\n"])


def _zsh_option(option: Parameter) -> str:
    names = f"{{{','.join(option.names)}}}" if len(option.names) > 1 else option.names[0]
    star = (
        "'*'"
        if option.is_repeatable
        else f"'({' '.join(option.names)})'"
        if len(option.names) > 1
        else ""
    )
    equals = (
        "="
        if option.takes_value and option.names[-1].startswith("--") and len(option.names) == 1
        else ""
    )
    value = (
        f":{_escape_colon(option.placeholder)}:{_zsh_action(option)}" if option.takes_value else ""
    )
    return f"{star}{names}{_quote(f'{equals}[{_escape_brackets(option.help)}]{value}')}"


def _zsh_argument(argument: Parameter) -> str:
    place = "*:" if argument.is_repeatable else ":" if argument.is_required else "::"
    return _quote(f"{place}{_escape_colon(argument.placeholder)}:{_zsh_action(argument)}")


def _zsh_action(parameter: Parameter) -> str:
    if len(parameter.values) > LONG:
        return "_hosttune-rule-ids"
    if parameter.values:
        return "(" + " ".join(value.replace(" ", "\\ ") for value in parameter.values) + ")"
    return "_files" if parameter.is_file else " "


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _escape_colon(text: str) -> str:
    return text.replace(":", "\\:")


def _escape_brackets(text: str) -> str:
    return _escape_colon(text).replace("[", "\\[").replace("]", "\\]")


def fish(root: Command) -> str:
    lines = [
        "# fish completion for hosttune, made from its command tree",
        f"function __hosttune_rule_ids\n    string split ' ' '{' '.join(root.rules)}'\nend",
        "complete -c hosttune -f",
    ]
    for command in root.walk():
        condition = _fish_condition(command, root)
        start = f"complete -c hosttune -n {condition}"
        lines += [
            f"{start} -a {below.path[-1]} -d {_quote_for_fish(below.title)}"
            for below in command.commands
        ]
        lines += [
            f"{start}{_fish_option(option)} -d {_quote_for_fish(option.help)}"
            for option in command.options
        ]
        lines += [
            f"{start} -a {_fish_words(one.values)}" for one in command.arguments if one.values
        ]
        lines += [f"{start} -F" for one in command.arguments if one.is_file]
    return "\n".join(lines) + "\n"


def _fish_condition(command: Command, root: Command) -> str:
    """Whether this command is the one that is being typed."""
    if not command.path:
        return "__fish_use_subcommand"
    groups = [one.path[0] for one in root.commands if one.commands]
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.path)
    if len(command.path) == 1:
        others = " ".join(name for name in groups if name != command.path[0])
        below = " ".join(one.path[-1] for one in command.commands)
        seen += f"; and not __fish_seen_subcommand_from {others}" if others else ""
        seen += f"; and not __fish_seen_subcommand_from {below}" if below else ""
    return _quote_for_fish(seen)


def _fish_option(option: Parameter) -> str:
    words = "".join(
        f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names
    )
    if not option.takes_value:
        return words
    if option.values:
        return f"{words} -r -f -a {_fish_words(option.values)}"
    return f"{words} -r {'-F' if option.is_file else '-f'}"


def _fish_words(words: tuple[str, ...]) -> str:
    if len(words) > LONG:
        return "'(__hosttune_rule_ids)'"
    return _quote_for_fish(" ".join(word.replace(" ", "\\ ") for word in words))


def _quote_for_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def _describe_command(command: Command) -> str:
    """As _describe takes it: NAME:TITLE (zshcompsys(1))."""
    return f"{_escape_colon(command.path[-1])}:{command.title}"
