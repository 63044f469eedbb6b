"""How the process ends: with its status, all that it wrote, and no thread cut off."""

import os
import subprocess
import sys

HEAD = "import sys, threading, time\nfrom hosttune.host.console import leave\n"


def ended(body, **more):
    argv = [sys.executable, "-c", HEAD + body]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run(argv, env=env, text=True, timeout=120, check=False, **told)


def test_what_was_written_and_not_yet_handed_on_comes_out():
    done = ended("sys.stdout.write('told')\nleave(3)")
    assert (done.returncode, done.stdout, done.stderr) == (3, "told", "")


def test_a_thread_at_work_comes_to_its_end_and_one_that_only_waits_does_not_hold_it():
    work = "threading.Thread(target=lambda: (time.sleep(0.2), print('done'))).start()\n"
    wait = "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    done = ended(f"{work}{wait}leave(1)")
    assert (done.returncode, done.stdout) == (1, "done\n")
    assert ended(f"{wait}leave(1)").returncode == 1


def test_output_that_cannot_be_written_is_told_and_is_no_success():
    with open("/dev/full", "w") as full:
        done = ended("sys.stdout.write('told')\nleave(0)", stdout=full)
    assert done.returncode == 120
    assert "No space left on device" in done.stderr


def test_nothing_is_given_back_piece_by_piece():
    done = ended("import atexit\natexit.register(print, 'the end')\nleave(0)")
    assert (done.returncode, done.stdout) == (0, "")
