"""Writes the result of every task as one line of JSON, for outhaul-agent.

What comes in: ansible-core's callbacks, and the file to write to in OUTHAUL_TASK_RESULTS. What goes
out: {"task", "status", "message"} per task and host. A task marked no_log shows no message. A play in
which no host matched has a line of its own: with "no_hosts" unless an earlier task makes groups of hosts,
so that a play for a group that has none is meant to be skipped.
ansible-core itself has no JSON callback; this one needs nothing beyond it.
"""

import json
import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: outhaul_results
type: notification
short_description: one line of JSON per task, for outhaul-agent
description: See the module's docstring.
"""

LONGEST_MESSAGE = 2000


def _words(values):
    """What a result says: its message, and beside it what the task's program wrote to stderr."""
    failed = [one for one in values.get("results") or [] if isinstance(one, dict) and one.get("failed")]
    if failed:
        # A loop says that something failed; its items say what.
        first, more = failed[0], len(failed) - 1
        return _words(first) + (f" (and {more} more items)" if more else "")
    message = str(values.get("msg") or "").strip()
    stderr = str(values.get("stderr") or values.get("module_stderr") or "").strip()
    if not stderr or stderr in message:
        return message
    return f"{message}: {stderr}" if message else stderr


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "outhaul_results"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        path = os.environ.get("OUTHAUL_TASK_RESULTS")
        self.disabled = not path
        self.lines = open(path, "a", encoding="utf-8") if path else None
        self.play = None
        self.groups_made = False

    def _tell(self, result, status, message=""):
        task = getattr(result, "task", None) or getattr(result, "_task", None)
        values = getattr(result, "result", None) or getattr(result, "_result", None) or {}
        if values.get("_ansible_no_log") or getattr(task, "no_log", False):
            message = "(hidden by no_log)"
        elif not message:
            message = _words(values)
        line = {
            "task": task.get_name() if task else "?",
            "status": status,
            "message": str(message)[:LONGEST_MESSAGE],
        }
        self._write(line)

    def _write(self, line):
        self.lines.write(json.dumps(line) + "\n")
        self.lines.flush()

    def v2_playbook_on_play_start(self, play):
        self.play = play

    def v2_playbook_on_no_hosts_matched(self):
        hosts = getattr(self.play, "hosts", None) or []
        hosts = ", ".join(map(str, hosts)) if isinstance(hosts, (list, tuple)) else str(hosts)
        name = self.play.get_name() if self.play else "?"
        line = {
            "task": f"play `{name}`"[:LONGEST_MESSAGE],
            "status": "skipped" if self.groups_made else "failed",
            "message": f"no host matched `{hosts}`, so that no task of it was run"[:LONGEST_MESSAGE],
        }
        if not self.groups_made:
            line["message"] += "; the inventory of a site is `localhost` alone: `hosts: all` matches it"
            line["no_hosts"] = True
        self._write(line)

    def _note_groups(self, result):
        """A task that makes groups was met: also one with a false `when`, which makes none this time."""
        task = getattr(result, "task", None) or getattr(result, "_task", None)
        if str(getattr(task, "action", "")).rsplit(".", 1)[-1] in ("group_by", "add_host"):
            self.groups_made = True

    def v2_runner_on_ok(self, result):
        self._note_groups(result)
        values = getattr(result, "result", None) or getattr(result, "_result", None) or {}
        self._tell(result, "changed" if values.get("changed") else "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._tell(result, "ignored" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result):
        self._tell(result, "unreachable")

    def v2_runner_on_skipped(self, result):
        self._note_groups(result)
        self._tell(result, "skipped")
