# SPDX-License-Identifier: Apache-2.0
"""hosttune on the host: the file that travelled with the task, or the one that is installed there.

The file is started once for a task and answers every command of it, so it is imported once. It lies
in a folder that only its owner can enter, next to the policy and the rules of the task, and goes
when the task ends.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

OLDEST_PYTHON = (3, 10)
# a full disk does not matter there, and a boot clears it; where it is full itself, a folder on disk
MEMORY = "/run"
CACHE = "/var/cache/hosttune"  # root's alone: the file keeps its byte code there


# Where a person finds it by its name; sudo looks there, too (SECURE_PATH of
# hosttune/host/console.py).
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"


def program_here():
    """The hosttune that a person can type on this host; empty where there is none."""
    return shutil.which("hosttune", path=PROGRAMS) or ""


class Trouble(Exception):
    """hosttune could not do its work; `said` is what it wrote on standard error."""

    def __init__(self, message, said=""):
        super().__init__(message)
        self.said = said


class Client:
    """Asks hosttune. Use it as a context manager."""

    def __init__(
        self, executable=None, payload=None, policy=None, rules=None, policy_name="", look=None
    ):
        self._executable = executable
        self._payload = payload
        self._policy = policy
        self._policy_name = policy_name
        self._rules = rules or {}
        self.folder = ""
        self._server = None
        self._errors = None
        self._given = look or {}
        self.look = {}

    def __enter__(self):
        if not self._executable and sys.version_info < OLDEST_PYTHON:
            found = ".".join(map(str, sys.version_info[:2]))
            raise Trouble(
                f"hosttune needs Python 3.10 or newer on the host, and {sys.executable} is {found}"
            )
        for place in (MEMORY, None):
            try:
                self._lay_down(place)
                return self
            except OSError as error:
                self.__exit__()
                reason = f"{self.folder or place}: hosttune cannot be laid down: {error.strerror}"
            except BaseException:
                self.__exit__()
                raise
        raise Trouble(reason)

    def _lay_down(self, place):
        """What the task brings into a new folder that only its owner can enter: below `place`, or
        where TMPDIR says.
        """
        self.look, self.folder = dict(self._given), ""
        self.folder = tempfile.mkdtemp(prefix="hosttune-task-", dir=place)
        if self._policy is not None:
            self.look["policy"] = self._write("policy.yaml", self._policy.encode())
        if self._rules:
            for name, text in self._rules.items():
                self._write(os.path.join("rules.d", os.path.basename(name)), text.encode())
            self.look["rules"] = os.path.join(self.folder, "rules.d")
        if not self._executable:
            self._serve()

    def __exit__(self, *_error):
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()
            self._server = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return path

    def _serve(self):
        if not self._payload:
            raise Trouble(
                "hosttune did not travel with the task: call the module by its action (its full "
                "name)"
            )
        archive = self._write("hosttune.pyz", base64.b64decode(self._payload))
        self._errors = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - as long as the server
        # run_command ends with the first answer, and the second question depends on it.
        self._server = subprocess.Popen(  # pylint: disable=ansible-bad-function
            [sys.executable, "-I", "-S", archive, "--serve", CACHE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd="/",
        )

    def run(self, command, **asked):
        """The exit status, standard output and standard error of a command; `asked` are its
        parameters by name.
        """
        if self._executable:
            try:
                done = subprocess.run(  # pylint: disable=ansible-bad-function
                    [self._executable, *words_of(command, **asked)],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    cwd="/",
                )
            except OSError as error:
                raise Trouble(f"{self._executable}: cannot be started: {error.strerror}") from error
            return done.returncode, done.stdout, self._told(done.stderr)
        try:
            self._server.stdin.write(json.dumps(dict(asked, command=command)) + "\n")
            self._server.stdin.flush()
            answer = json.loads(self._server.stdout.readline())
        except (BrokenPipeError, ValueError) as error:
            self._server.wait()
            self._errors.seek(0)
            said = self._told(self._errors.read().decode("utf-8", "replace"))
            raise Trouble(
                "hosttune ended without an answer: %s" % (said.strip() or error), said
            ) from error
        return answer["status"], answer["stdout"], self._told(answer["stderr"])

    def ask(self, command, **asked):
        """The document that the command prints, and its exit status. Raises Trouble when there is
        none.
        """
        status, out, said = self.run(command, **asked)
        try:
            return json.loads(out), status, said
        except ValueError:
            heads, told = ("hosttune:", "Error: "), said.splitlines()
            # What it told before its reason, of its progress too, is no part of that.
            begin = max(
                (number for number, line in enumerate(told) if line.startswith(heads)), default=0
            )
            lines = [line for line in told[begin:] if line.startswith((*heads, "  "))]
            reason = "\n".join(
                line[2:] if line.startswith("  ") else line.replace("hosttune: ", "")
                for line in lines
            )
            raise Trouble(reason or f"hosttune {command}: exit status {status}", said) from None

    def _told(self, text):
        """Text with the names that the task gave, without a folder that is gone when somebody reads
        it.
        """
        if not self.folder:
            return text
        if self._policy_name:
            text = text.replace(os.path.join(self.folder, "policy.yaml"), self._policy_name)
        return text.replace(self.folder + os.sep, "")


OPERANDS = ("run", "file")  # what the command line takes without the name of an option


def words_of(command, look=None, **asked):
    """The same as words, for a hosttune that is installed on the host."""
    words = [command, *[asked[name] for name in OPERANDS if name in asked]]
    options = {name: value for name, value in asked.items() if name not in OPERANDS}
    for name, value in dict(look or {}, **options).items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        else:
            words += [
                word
                for one in (value if isinstance(value, list) else [value])
                for word in (option, one)
            ]
    return [*words, "--format", "json"]


def look_of(params):
    """What of the parameters of a module chooses rules."""
    names = ("profile", "max_risk", "disturb", "select", "ignore", "only")
    return {name: params[name] for name in names if params.get(name)}


def client_of(params):
    """The client that the parameters of a module ask for."""
    # Two hidden arguments, which the action plugin fills in.
    site = json.loads(base64.b64decode(params["_site"])) if params.get("_site") else {}
    return Client(
        params.get("executable"),
        params.get("_payload"),
        site.get("policy"),
        site.get("rules"),
        site.get("policy_name"),
        look_of(params),
    )
