"""Text that asks for access times: command lines of crontabs, units and scripts, and settings of
programs that remove by age. Pure.

A bounded search, line by line. What asks for access times counts as a purge by them. Neither
variables nor `cd` are followed: where the folder is not written in the command itself, the place is
/, which is everywhere.

Sources: find(1), -atime, -amin, -anewer, -used, -newerXY; tmpwatch(8), tmpreaper(8), stmpclean(8);
stat(1); ls(1); zshexpn(1), Glob Qualifiers; perlfunc(1), -X; systemd-tmpfiles(8); crontab(5),
anacrontab(5), systemd.service(5), sh(1); tmpfiles.d(5); Debian's /etc/tmpreaper.conf;
cachefilesd.conf(5) and the kernel's Documentation/filesystems/caching/cachefiles.rst (culling is by
access time); robinhood's configuration.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.environment import shell_variables
from hosttune.frozen import frozen
from hosttune.host.masking.command_secrets import mask_documents
from hosttune.host.masking.secrets import mask_secrets
from hosttune.host.reading.paths import PATH_MAX
from hosttune.lines import LineNumbers
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

# What asks for access times in a line without its quotes. Every repetition is bounded: users write
# crontabs, too.
_ASKS = regex(
    r"(?<![\w*.-])-(?:a(?:time|min|newer)|used|newera[aBcmt])\b(?:\s{1,9}[-+]?\w{1,40})?|"
    r"-f?printf\b[^\n]{0,200}?%[-0-9.]{0,9}[Aa]|\blfs\s{1,9}find\s[^|;&\n]{0,1000}?\s-A\b|"
    r"(?<![\w.-])(?:tmpreaper|tmpwatch|stmpclean)(?=\s{1,9}[-\d$])|"
    # with a file of its own, which is not read
    r"\bsystemd-tmpfiles(?=\s[^|;&\n]{0,1000}?--clean)"
    r"(?:\s{1,9}-\S{1,200}){0,9}\s{1,9}[^-\s|;&<>\d]"
)
_TEST = regex(r"-[anu]\w+ [-+]?\w+")
_FIND = regex(r"(?:.*[({/])?(?:find|bfs)", re.DOTALL)
_PROGRAM = regex(r"(?:.*[({/])?(?:find|bfs|tmpreaper|tmpwatch|stmpclean)", re.DOTALL)
_PERIOD = regex(r"\d+[smhdw]?$|\$")
_OPTION = regex(r"-[HLPEXdsx]+|-O\d?|-D")
# Of other programs and languages.
_MENTION = regex(
    r"\b(?:st|stx)_atime?|\bST_ATIME\b|\bgetatime\b|\blast_?[aA]ccess(?:ed|_?[tT]ime)\b"
    r"|\.atime(?:_?ns|Ms)?\b|\.Atim\b|"
    r"\(stat\b[^\n]{0,200}\)\s{0,9}\[8\]|\bos\.l?stat\([^\n]{0,200}\)\s{0,9}\[7\]|"
    r"\bstat\s[^|;\n]{0,200}%[-+ #0-9.]{0,9}[xX]|\bls\s+(?:-\S{1,40}\s+){0,9}-[a-zA-Z]{0,20}u|"
    r"--time[= ](?:atime|access|use)\b|\bhf\s+cache\s[^|;\n]{0,200}accessed"
    r"|\bhuggingface-cli\s+delete-cache\b|"
    # perl: unlink if -A $_ > 30
    r"(?:\b(?:if|unless|and|or|return|not|while|until)\s|[({!&|,?])[\s(]{0,9}-A\s{0,9}(?:\$|_\b"
    r"|[\"'/<>)])|"
    r"(?<![\w-])-A\s{0,9}(?:\$\w{1,40}|_)?\s{0,9}[<>]=?\s{0,9}\d|"
    # zsh: rm /data/**/*(.a+30)
    r"(?:\((?=[./^])|(?<![\w)\]])\*\()[./@=*%^NDLF-]{0,9}a[Mwhms]?[-+]\d"
)
# What sees other places under the names of its files: a container, another root, another host.
_ELSEWHERE = regex(
    r"(?<![\w./-])(?:/\S{0,60}bin/)?(?:chroot|nsenter|unshare|bwrap|docker|podman|nerdctl|ctr"
    r"|crictl|kubectl|"
    r"apptainer|singularity|enroot|lxc|incus|systemd-nspawn|machinectl|proot|srun|ssh|pdsh)\s"
)
_MOST_PLACES = 16  # of one command; more are everywhere
_LONGEST_AGE = 80  # characters that are kept
# A backtick becomes a variable at the end of a command. What it prints is not known here, so the
# folder behind it is not known either.
_QUOTES = str.maketrans({'"': None, "'": None, "\\": None, "`": " $;"})
_END = regex(r"[;|&\n]")

# The fields of a line that come before its command.
_FIELDS = {
    # the last is a user
    "table": regex(r"^\s*(?:@\w+|(?:[\d*,/a-zA-Z-]+\s+){4}[\d*,/a-zA-Z-]+)\s+\S+\s+"),
    "crontab": regex(r"^\s*(?:@\w+|(?:[\d*,/-]\S*\s+){4}[\d*,/a-zA-Z-]+)\s+"),
    "anacrontab": regex(r"^\s*(?:\d+|@\w+)\s+\d+\s+\S+\s+"),
}
_KEY = regex(r"\s*(Exec\w+|Environment|EnvironmentFile)\s*=[\s@:+!|-]*")
# What starts the program that follows among its words.
_RUNNERS = (
    r"(?:/\S+/)?(?:sudo|doas|su|runuser|setpriv|nice|ionice|chrt|taskset|timeout|flock|env|nohup"
    r"|setsid|exec|command|"
    r"time|chronic|cronic|run-one|run-parts|systemd-run|systemd-cat|parallel|xargs|if|while|then"
    r"|do|else|elif|until|"
    r"(?:ba|da|z|k)?sh|python[\d.]*|perl|ruby|-exec(?:dir)?|-ok(?:dir)?)(?!\S)"
)
_RUNNER = regex(rf"(?<!\S){_RUNNERS}")
# A command: options, variables and runners, then the program and its first word.
_COMMAND = regex(
    r"\s*(?:(?:flock(?:\s+(?:-\S+|\d+))*\s+[^-\s\d]\S*(?!\S)|"
    rf"{_RUNNERS}|(?:[\d*,/-]+|@\w+|-\S*|\d+[smhd]|[!{{]|\w+=\S*)(?!\S))\s*)*(\S*)\s*(\S*)"
)
_GIVEN = regex(r"(?<!\S)\w+=([/\1\2][^\s\3-\7\16]*)")
_INTERPRETED = regex(
    r"(?<!\S)(?:/\S+/)?(?:((?:ba|da|z|k)?sh|python[\d.]*|perl|ruby)"
    r"|run-parts)(?:\s+-\S+)*\s+([/\1\2]\S*)"
)
_HANDED = regex(r"(?<!\S)-\w*c\s+([^\s\3-\7\16]*[\3-\7\16]\S*)")  # sh -c LINE
_NAME = regex(r"[\w.+-]+")
_SHELL_WORDS = frozenset({"done", "fi", "esac", ".."})
_SCRIPT = regex(r"\.(?:sh|bash|zsh|ksh|py|pl|rb)$")
# Programs of the distribution are here; they are no scripts of a site, unless their name says so.
_PROGRAMS = regex(r"/(?:usr/)?(?:bin|sbin|lib|lib64|libexec|share|games)/|/(?:proc|sys|dev|run)/")
# The two folders that a script knows without a variable are one character each until the file is
# known.
OWN_FOLDER, HOME = "\1", "\2"
LOCAL_PROGRAMS = ("/usr/local/sbin", "/usr/local/bin")
_ROOTS = ("/", OWN_FOLDER, HOME)
_OPERATOR = regex(r"[;|&()\n]")
_OWN = regex(
    r"\$\((?:(?:/usr)?/bin/)?dirname\s+(?:--\s+)?\"?(?:\$0|\$\{?BASH_SOURCE(?:\[0\])?\}?)\"?\)|"
    r"\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}"
)
_OF_HOME = regex(r"(?:(?<=[\s;|&(=\"'])|^)(?:\$HOME|\$\{HOME\}|~|%h)(?=/)")
# characters of all names of one file: a folder is joined with each script that is started in it
_MOST_NAMED = 1 << 20
# What is quoted as one word, and as a line of its own where a program gets it.
_SINGLE, _QUOTED = regex(r"'[^'\n]*'|\\ "), regex(r"'[^'\n]*'|\"[^\"\n]*\"|\\ ")
_MARKS, _HIDDEN = " ;|&()", "\3\4\5\6\7\16"
_MARKED = regex("[\3-\7\16]")
_HIDE, _SHOWN = str.maketrans(_MARKS, _HIDDEN), str.maketrans(_HIDDEN, _MARKS)

# What a record keeps
_LEADS = {"read": ". ", "start": "", "word": "_=", "folder": "run-parts ", "name": ""}
_KEPT = regex(r"(?:\$\(dirname \$0\))?[\w./@~${}*?%+:-]{1,4000}")
_WHOLE_PERIOD = regex(r"\d{1,9}[smhdw]?")
_INTERPRETER = regex(r"#!\s{0,9}[\w./-]{1,200}")

# Settings
_FIELD = regex(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|(\S+)')
_AGEING = frozenset("dDevqQC")  # x and X have an age, too, but keep files
# Types of which only one line may decide about a path (src/tmpfiles/tmpfiles.c, takes_ownership);
# a, t, h, z, m and their likes add to it. Those that take patterns are kept apart from the others
# (needs_glob).
_DECIDING = frozenset("fFdDevqQpLcbCxXwrR")
_OF_PATTERNS = frozenset("exXwrR")
# Of the system's instance (tmpfiles.d(5), "Specifiers"); machine and boot are left open.
_SPECIFIERS = {
    "%t": "/run", "%S": "/var/lib", "%C": "/var/cache", "%L": "/var/log", "%T": "/tmp",
    "%V": "/var/tmp", "%h": "/root",
}  # fmt: skip
_SPECIFIER = regex(r"%.")
_OPEN = regex(r"[*?\[%{$`~)\]},]")
_CULLED = regex(r"^[^\S\n]*dir[^\S\n]+(\S+)", re.MULTILINE)
_NO_CULL = regex(r"^[^\S\n]*nocull\b", re.MULTILINE)
_POLICY = regex(r"^[^#\n]*\blast_access\b", re.MULTILINE)
_FS_PATH = regex(r"^[^#\n]*\bfs_path\s*=\s*[\"']?([^\s\"';]+)", re.MULTILINE)


@frozen
class AgeRule(Fact):
    """Files below `path` are removed when they reach `age`."""

    path: str  # the folder for certain: /data for /data/*/cache; / if that is not known
    age: str  # as written: 10d, 1w, -atime +30; empty if that is not known
    source: str  # file:line
    uses_atime: bool  # False where the rule looks at other times only


def rows_of(content: str, kind: str = "script") -> Iterator[tuple[int, str]]:
    """(number of its first line, text) of each command line of a `script`, a user's `crontab`, a
    `table` of the system, an `anacrontab`, or a `unit`, of which those are of Exec*= and
    Environment=. EnvironmentFile= reads a file in, as `. FILE` does. Continued lines are one;
    comments are none. A password that a script has in a here-document is left out: it would be
    taken for the name of a program, and looked for.
    """
    content = mask_documents(content) if kind == "script" else content
    kept: list[str] = []
    first = 0
    for number, line in enumerate((*content.splitlines(), ""), 1):
        # In a unit a comment may stand between continued lines (systemd.syntax(7)).
        if line.lstrip().startswith(("#", ";")) and (not kept or kind == "unit"):
            continue
        first = first if kept else number
        kept.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        # systemd puts a blank in place of the backslash and the line break (systemd.syntax(7)); a
        # shell puts nothing there.
        text = (" " if kind == "unit" else "").join(kept)
        kept = []
        if kind != "unit":
            yield first, _FIELDS[kind].sub("", text) if kind in _FIELDS else text
        elif key := _KEY.match(text):
            value = text[key.end() :]
            yield (
                first,
                f". {_SPECIFIER.sub(_keep_home, value)}" if key[1] == "EnvironmentFile" else value,
            )


def _keep_home(specifier: re.Match[str]) -> str:
    # A wildcard stands for whatever the specifier becomes when the unit starts. EnvironmentFile=
    # takes patterns anyway.
    return specifier[0] if specifier[0] == "%h" else "*"


def rules_in(content: str, name: str, kind: str = "script") -> Iterator[AgeRule]:
    """What the command lines of a file may remove by access time. A place is a folder that the
    command names with its whole path. All else is /.
    """
    for number, written in rows_of(content, kind):
        text, source = written.translate(_QUOTES), f"{name}:{number}"
        mentions = _MENTION.search(written) is not None
        asked = len(_ASKS.findall(text))
        # In a container or on another host a path means another folder, so it cannot limit the rule
        # to a place of this host.
        for part in _END.split(text) if asked and not _ELSEWHERE.search(text) else ():
            if asks := _ASKS.findall(part):
                age, places = _find_places(part.split(), " ".join(asks[0].split()))
                asked -= len(asks) if places else 0
                yield from (
                    AgeRule(place, age[:_LONGEST_AGE], source, uses_atime=True) for place in places
                )
        if asked or mentions:
            yield AgeRule("/", "", source, uses_atime=True)


def _find_places(words: list[str], ask: str) -> tuple[str, list[str]]:
    """(age, folders) that a find or a cleaner names; what is too long for a name names nothing."""
    programs = [index for index, word in enumerate(words) if _PROGRAM.fullmatch(word)]
    # With two programs in one command it is open which word belongs to which, and -files0-from
    # takes the folders from a file.
    rest = words[programs[0] + 1 :] if len(programs) == 1 and "-files0-from" not in words else []
    if not rest:
        return "", ["/"] * len(programs)
    if _FIND.fullmatch(words[programs[0]]):
        while rest and _OPTION.fullmatch(rest[0]):
            del rest[: 2 if rest[0] == "-D" else 1]
        end = next(
            (index for index, word in enumerate(rest) if word.startswith(("-", "(", "!"))),
            len(rest),
        )
        # find(1) without a folder takes the current one. That is not known here, and `tree_of`
        # makes / of it.
        age, paths = ask if _TEST.fullmatch(ask) else "", rest[:end] or ["."]
    else:  # tmpreaper [options] AGE FOLDER...
        at = next((index for index, word in enumerate(rest) if _PERIOD.match(word)), len(rest) - 1)
        age = f"{rest[at]}h" if rest[at].isdigit() else rest[at]  # a bare number counts hours
        paths = [
            normalize_path(word) for word in rest[at + 1 :] if not re.match(r"-|\d*[<>]|#", word)
        ] or ["/"]
    places = [tree for tree in map(tree_of, paths) if len(tree) < PATH_MAX]
    return age, places if len(places) <= _MOST_PLACES else ["/"]


def files_in(content: str, kind: str = "script") -> Iterator[tuple[int, str, str]]:
    """(number of the row, how, path) of the files that command lines lead to: `read`, which they
    read in; `start`, what may be a script of a site; `word`, what may be one if it is a program;
    `folder`, in which each file may be one. A path begins with /, OWN_FOLDER or HOME, but not that
    of what is read in under a name that is not known. A name without a path may be in /usr/local.
    """
    here = ""
    found: dict[tuple[str, str], None] = {}
    left = _MOST_NAMED
    for number, written in rows_of(mask_secrets(content), kind):
        plain = _OF_HOME.sub(HOME, _OWN.sub(OWN_FOLDER, written) if kind == "script" else written)
        # a command in double quotes is the shell's
        quoted = _SINGLE if "$(" in plain or "`" in plain else _QUOTED
        lines = [quoted.sub(lambda match: match[0].translate(_HIDE), plain).translate(_QUOTES)]
        for line in lines:
            for command in filter(None, map(_COMMAND.match, _OPERATOR.split(line))):
                here = command[2] if command[1] == "cd" and command[2].startswith(_ROOTS) else here
                for how, marked in _files_of(command, here):
                    path = marked.translate(_SHOWN)
                    if how == "line":
                        lines.append(path)
                    elif (how, path) not in found:
                        found[how, path] = None
                        left -= len(path)
                        yield (number, how, path) if left > 0 else (number, "read", "")
        if left <= 0:
            return


def _files_of(command: re.Match[str], here: str) -> Iterator[tuple[str, str]]:
    """(how, path) of one command, and each `line` in quotes that it hands to a shell. `here` is the
    folder that a `cd` before it names.
    """
    part, (name, argument) = command.string, command.groups()
    yield from (("word", path) for path in _GIVEN.findall(part))
    yield from (
        ("start" if program else "folder", path) for program, path in _INTERPRETED.findall(part)
    )
    if runner := _RUNNER.search(part):
        rest = part[runner.end() :]
        yield from (("word", word) for word in rest.split() if word.startswith(_ROOTS))
        # What other programs get in quotes is searched for access times only.
        yield from (
            ("line", word) for word in _HANDED.findall(rest) if runner.end() <= command.start(1)
        )
    if _MARKED.search(name):
        yield "line", name
    if name in {".", "source"}:
        yield from (("read", path) for path in (argument,) if path)
    elif name.startswith(_ROOTS):
        yield "start", name
    elif name.startswith("./") or _SCRIPT.search(name):
        folders = dict.fromkeys((here, "", OWN_FOLDER, HOME))
        yield from (("start", f"{folder}/{name.removeprefix('./')}") for folder in folders)
    elif _NAME.fullmatch(name) and name not in _SHELL_WORDS:
        yield "name", name


def may_be_script(path: str) -> bool:
    """Whether a path may be a script that a site wrote, by its name alone."""
    return _SCRIPT.search(path) is not None or _PROGRAMS.match(path) is None


def keep_age_lines(content: str, kind: str = "script", programs: Collection[str] = ()) -> str:
    """What a record keeps of a file of commands so that the same is found in it, lines in place:
    what removes by age is written anew from its rule, and no other word of its author is kept than
    paths and names of `programs`, which are in LOCAL_PROGRAMS.
    """
    rows = content.splitlines() or [""]
    kept: list[dict[str, None]] = [{} for _ in rows]
    for rule in rules_in(content, "", kind):
        kept[int(rule.source[1:]) - 1][_command_of(rule)] = None
    for number, how, path in files_in(content, kind):
        if (how == "name" and path not in programs) or (
            how in {"start", "word"} and not may_be_script(path)
        ):
            continue
        name = path.replace(OWN_FOLDER, "$(dirname $0)").replace(
            HOME, "%h" if kind == "unit" else "$HOME"
        )
        unknown = ". $" if how == "read" or " " in name else ""
        kept[number - 1][f"{_LEADS[how]}{name}" if _KEPT.fullmatch(name) else unknown] = None
    lines = [
        _join_kept(row, list(filter(None, words)), kind)
        for row, words in zip(rows, kept, strict=True)
    ]
    if interpreter := _INTERPRETER.match(content):
        lines[0] = interpreter[0]
    return "\n".join((*lines, ""))


def _join_kept(row: str, words: list[str], kind: str) -> str:
    if kind != "unit":  # no time is read into what has none
        return "; ".join([":"] * (kind in _FIELDS and words != []) + words)
    key = _KEY.match(row)
    if key is None or key[1] == "EnvironmentFile":
        return f"EnvironmentFile={words[0].removeprefix('. ')}" if key and words else ""
    return f"{key[1]}={(' ' if key[1] == 'Environment' else '; ').join(words)}"


def _command_of(rule: AgeRule) -> str:
    """A command that asks for the same."""
    if _TEST.fullmatch(rule.age):
        return f"/usr/bin/find '{rule.path}' {rule.age}"
    if rule.age:
        period = rule.age if _WHOLE_PERIOD.fullmatch(rule.age) else "$AGE"
        return f"/usr/sbin/tmpwatch {period} '{rule.path}'"
    return ": st_atime" if rule.path == "/" else f"/usr/bin/find '{rule.path}' -printf %A@"


# Settings of programs that remove by age.


@frozen
class TmpfilesLine:
    """One line of a tmpfiles.d file."""

    type: str  # the letter, without modifiers
    path: str
    age: str  # "-" where there is none
    number: int
    text: str  # the whole line, single blanks in it
    adds: bool  # it adds to other lines (`+`)

    @property
    def decides_on(self) -> tuple[bool, str] | None:
        """What only one line decides about; None for a line that adds to others."""
        return (
            (self.type in _OF_PATTERNS, self.path)
            if self.type in _DECIDING and not self.adds
            else None
        )


def parse_tmpfiles(content: str) -> tuple[TmpfilesLine, ...]:
    """The lines that also count after boot (no `!`): `Type Path Mode User Group Age Argument`,
    quotes as in a shell.
    """
    lines = []
    for number, row in enumerate(content.splitlines(), start=1):
        if row.lstrip().startswith("#"):
            continue
        fields = [
            next((part for part in match.groups() if part is not None), "")
            for match in _FIELD.finditer(row)
        ]
        if len(fields) >= 2 and "!" not in fields[0]:
            age = fields[5] if len(fields) > 5 else "-"
            lines.append(
                TmpfilesLine(
                    fields[0][0], fields[1], age, number, " ".join(row.split()), "+" in fields[0]
                )
            )
    return tuple(lines)


def parse_age(spelled: str) -> tuple[str, bool]:
    """(age, whether access times count) of the age field: `~` keeps the first level, `bmA:10d`
    names the times that count, a and A are access times; without names all count.
    """
    age = spelled.removeprefix("~")
    times, colon, rest = age.rpartition(":")
    return (rest, "a" in times.lower()) if colon else (age, True)


def tree_of(path: str) -> str:
    """The folder in which all that a pattern means is: up to the first wildcard, variable or
    specifier; / for what is no absolute path, and for one that goes up again.
    """
    parts = path.split("/")
    end = next((index for index, part in enumerate(parts) if _OPEN.search(part)), len(parts))
    tree = "/".join(parts[:end]).rstrip("/")
    return tree if tree.startswith("/") and ".." not in parts else "/"


def select(files: Iterable[tuple[str, tuple[TmpfilesLine, ...]]]) -> tuple[AgeRule, ...]:
    """The rules of (file, lines) in the order of base names: of two lines that decide about a path
    the first wins.
    """
    rules: list[AgeRule] = []
    decided: set[tuple[bool, str]] = set()
    for name, lines in files:
        for line in lines:
            if line.decides_on is None or line.decides_on in decided:
                continue
            decided.add(line.decides_on)
            age, uses_atime = parse_age(line.age)
            if line.type in _AGEING and age not in {"-", ""}:
                path = _SPECIFIER.sub(lambda match: _SPECIFIERS.get(match[0], match[0]), line.path)
                rules.append(AgeRule(tree_of(path), age, f"{name}:{line.number}", uses_atime))
    return tuple(rules)


def parse_tmpreaper(content: str, name: str) -> tuple[AgeRule, ...]:
    """/etc/tmpreaper.conf, shell assignments: the folders (only /tmp where none are named), the age
    (7d), options.
    """
    values = {key: (value, line) for line, key, value in shell_variables(content)}
    folders, number = values.get("TMPREAPER_DIRS", ("/tmp", 1))
    age = values.get("TMPREAPER_TIME", ("", 1))[0] or "7d"
    options = values.get("TMPREAPER_ADDITIONALOPTIONS", ("", 1))[0].split()
    uses_atime = not {"--mtime", "-m"} & set(options)
    return tuple(
        AgeRule(tree_of(normalize_path(one)), age, f"{name}:{number}", uses_atime)
        for one in folders.split()
    )


def parse_cachefilesd(content: str, name: str) -> tuple[AgeRule, ...]:
    """The cache of network file systems that cachefilesd culls, the least recently read first."""
    found, line = (
        () if _NO_CULL.search(content) else _CULLED.finditer(content),
        LineNumbers(content).at,
    )
    return tuple(
        AgeRule(tree_of(one[1]), "", f"{name}:{line(one.start(1))}", uses_atime=True)
        for one in found
    )


def parse_robinhood(content: str, name: str) -> tuple[AgeRule, ...]:
    """A policy over last_access: below fs_path, or anywhere where the file does not say where."""
    policy, place = _POLICY.search(content), _FS_PATH.search(content)
    source = f"{name}:{LineNumbers(content).at(policy.end())}" if policy else ""
    return (
        (AgeRule(tree_of(place[1]) if place else "/", "last_access", source, uses_atime=True),)
        if policy
        else ()
    )


def normalize_path(path: str) -> str:
    """`/tmp/.` is how tmpreaper is made to follow a link; the folder is /tmp."""
    return path.removesuffix("/.")
