"""The `__main__` of the self-contained file: runs hosttune from where it lies, and unpacks nothing.

The file is a zip archive, and Python imports from it (importing.py); so nothing is written
anywhere. `--serve FOLDER` answers several requests in one process, for the Ansible modules: each
line of standard input is one (hosttune.cli.served), each line of standard output an object with
`status`, `stdout` and `stderr`. Started by root it keeps its byte code in FOLDER for the next one.
Written so that any Python 3 can say that it is too old.
"""

import os
import sys

OLDEST = (3, 10)


def main() -> None:
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:2]))
        leave("it needs Python 3.10 or newer, and %s is %s" % (sys.executable, found))
    archive = os.path.abspath(
        sys.argv[0] if sys.argv[0].endswith(".pyz") else os.path.dirname(__file__)
    )
    if not (sys.flags.isolated and sys.flags.no_site):
        # Root imports nothing but this file and Python's own library: not from PYTHONPATH, not from
        # site-packages.
        os.execv(sys.executable, [sys.executable, "-I", "-S", archive, *sys.argv[1:]])  # noqa: S606 - itself
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of an import
    sys.argv[0] = archive
    import importing

    importing.install(archive)
    if sys.argv[1:2] == ["--serve"]:
        folder = sys.argv[2]
        importing.load(archive, folder)
        from hosttune.cli.ending import go_on_in_child
        from hosttune.host.inherited import take_signals

        take_signals()
        go_on_in_child("apply")
        status = serve()
        importing.store(archive, folder)
        sys.exit(status)
    from hosttune.__main__ import main as hosttune

    hosttune()


def serve() -> int:
    """Answer requests until standard input ends. Programs that hosttune starts get neither of the
    two pipes.
    """
    import contextlib
    import io
    import json

    from hosttune.cli.ending import collect_seldom
    from hosttune.cli.served import answer

    collect_seldom()

    asked = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    for line in asked:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = answer(json.loads(line))
        json.dump({"status": status, "stdout": out.getvalue(), "stderr": err.getvalue()}, answers)
        answers.write("\n")
        answers.flush()
    return 0


def leave(sentence: str) -> None:
    sys.stderr.write("hosttune: %s\n" % sentence)
    sys.exit(2)


main()
