# SPDX-License-Identifier: Apache-2.0
"""Brings what the module hosttune.hosttune.tune needs."""

from __future__ import annotations

from ansible_collections.hosttune.hosttune.plugins.plugin_utils.bringing import BringingAction


class ActionModule(BringingAction):
    """The action of hosttune.hosttune.tune."""

    MODULE = "hosttune.hosttune.tune"
