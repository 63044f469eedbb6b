# SPDX-License-Identifier: Apache-2.0
"""Brings what the module hosttune.hosttune.tune_info needs."""

from __future__ import annotations

from ansible_collections.hosttune.hosttune.plugins.plugin_utils import answers
from ansible_collections.hosttune.hosttune.plugins.plugin_utils.bringing import BringingAction


class ActionModule(BringingAction):
    """The action of hosttune.hosttune.tune_info."""

    MODULE = "hosttune.hosttune.tune_info"
    SCHEMA = answers.load_schema("tune_info")
