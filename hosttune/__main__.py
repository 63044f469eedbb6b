"""`hosttune`, and `python -m hosttune`: what is started.

Up to the end of the imports Ctrl-C ends this process as it ends any other program, with no
traceback of an import; `cli/app.py` takes it from there.
"""

from hosttune.foreign_code import refuse_foreign_code

refuse_foreign_code()

import signal  # noqa: E402 - nothing is imported before that look

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from hosttune.cli.app import main as main  # noqa: E402, PLC0414 - exported, and after the signal

if __name__ == "__main__":
    main()
