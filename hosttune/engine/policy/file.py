"""The policy file, `/etc/hosttune/policy.yaml`: read, checked, and narrowed to one host of a
fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hosttune.engine.policy.policy import AtBoot, Drains, HostSection, Policy, Statement, name_notes
from hosttune.engine.policy.waiver import MOST, MOST_PATTERNS, Waiver
from hosttune.engine.rules.declared import DataMount, Declared
from hosttune.engine.rules.gone import EDITION_NOTE, GONE, without_gone
from hosttune.engine.trial_terms import TrialTerms, span_s
from hosttune.errors import BadInput, Fault, HosttuneError, Where
from hosttune.facts.globs import fits_glob
from hosttune.facts.host import host_name
from hosttune.values import Confirmer, Disturbs, Risk

if TYPE_CHECKING:
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.document import YamlFile
    from hosttune.host.door import Reader
    from hosttune.values import Answer

PATH = "/etc/hosttune/policy.yaml"


def load_policy(reader: Reader, catalog: Catalog, path: str | None = None) -> Policy:
    """Read the policy of this host, or the file at `path` on this machine. No file at the usual
    place: the defaults.

    Raises BadInput with every fault: unknown keys, rules and parameters with the nearest valid
    name, values out of range; and HosttuneError when root would read a file that someone else can
    write.
    """
    from hosttune.engine.rules.trusted import read_trusted

    today = datetime.fromtimestamp(reader.now(), timezone.utc).date().isoformat()
    name, text = read_trusted(
        reader, path or PATH, is_local=path is not None, is_required=path is not None
    )
    if text is None:
        return Policy(today=today)
    from hosttune.engine.rules.yamlio import load_document

    return build_policy(load_document(text, name), catalog, today, host_name(reader))


def build_policy(
    document: YamlFile, catalog: Catalog, today: str, host: Answer[str] = ""
) -> Policy:
    """Check a policy document and build the policy for a host. Raises BadInput with every fault."""
    from hosttune.engine.rules.shapes import policy_faults

    faults = policy_faults(document, catalog)
    if faults:
        raise BadInput(faults)
    data = for_host(document.data or {}, host, document.name)
    if len(data.get("data_mounts", ())) > 1:
        from hosttune.engine.rules.declared import doubled_faults

        faults = list(doubled_faults(document, _select_parts(document.data, host)))
        if faults:
            raise BadInput(faults)
    written = [
        *data.get("select", ()),
        *(e if isinstance(e, str) else e["rule"] for e in data.get("ignore", ())),
        *data.get("params", ()),
    ]
    # After the names were noted: the notes are about what the file says, the policy about what
    # still exists.
    data = without_gone(data)
    parts = _select_parts(document.data or {}, host)
    entries = data.get("ignore", ())
    off = [entry for entry in entries if isinstance(entry, str)]
    waivers = tuple(
        Waiver(**{**entry, "rule": catalog.current(entry["rule"])})
        for entry in entries
        if isinstance(entry, dict)
    )
    if len(waivers) > MOST or sum(one.is_pattern for one in waivers) > MOST_PATTERNS:
        message = f"has more than {MOST} waivers, or {MOST_PATTERNS} with a pattern"
        raise BadInput(
            [
                Fault(
                    Where(document.name, field="ignore"),
                    message,
                    "let one pattern stand for many subjects",
                )
            ]
        )
    params: dict[str, dict[str, Any]] = {}
    for rule, values in data.get("params", {}).items():
        params.setdefault(catalog.current(rule), {}).update(values)
    return Policy(
        profile=data.get("profile", "base"),
        profile_by=_named_by(document.data or {}, "profile", host, document.name),
        edition=str(data.get("edition", "")),
        select=tuple(map(catalog.current, data.get("select", ()))),
        ignore=tuple(map(catalog.current, off)),
        waivers=waivers,
        params=params,
        max_risk=Risk(data.get("max_risk", "medium")),
        disturb=Disturbs(data.get("disturb", "nothing")),
        drains=Drains(
            *(
                frozenset(map(catalog.current, data.get(key, ())))
                for key in ("drain_for", "no_drain_for")
            )
        ),
        at_boot=AtBoot(
            **{
                **data.get("at_boot", {}),
                "digests": tuple(data.get("at_boot", {}).get("digests", ())),
            }
        ),
        confirm=_read_terms(data["confirm"]) if "confirm" in data else None,
        keep_reports=data.get("keep_reports", Policy().keep_reports),
        declared=Declared(tuple(_data_mount(entry) for entry in data.get("data_mounts", ()))),
        source=document.name,
        host=host if isinstance(host, str) and document.data and "hosts" in document.data else "",
        sections=_read_sections(document, host),
        statements=_read_statements(document, catalog, host),
        today=today,
        notes=(
            *(
                f"{document.where(f'{prefix}edition')}: {EDITION_NOTE}"
                for prefix, part in parts
                if "edition" in part
            ),
            *(f"{document.name}: {note}" for note in name_notes(catalog, written)),
        ),
    )


def _read_terms(entry: Mapping[str, Any]) -> TrialTerms:
    by = Confirmer(entry.get("by", Confirmer.OPERATOR.value))
    return TrialTerms(span_s(entry["within"]), by, boot=entry.get("boot", True))


def for_host(data: Mapping[str, Any], host: Answer[str], name: str) -> dict[str, Any]:
    """The policy with the sections of `hosts` that fit, in the order of the file: a single value
    replaces the one above it, a list is added to it, parameters are set one by one.

    A pattern is meant for the whole host name or for its first label. Raises HosttuneError where
    there are sections and the name of the host is not known.
    """
    made: dict[str, Any] = {
        # Lists are copied, since sections extend them and the document is read again for its
        # statements.
        key: [*value] if isinstance(value, list) else value
        for key, value in data.items()
        if key != "hosts"
    }
    sections = data.get("hosts", {})
    # Without the name no section fits, and the host would run with the values that were meant for
    # all others.
    if sections and not isinstance(host, str):
        reason = getattr(host, "reason", "it has none")
        message = (
            f"{name}: has sections for hosts, and the name of this host is not known: {reason}"
        )
        raise HosttuneError(
            message,
            hint="name the host in /etc/hostname, or give it a policy of its own (--policy)",
        )
    for _, section in _sections_of(data, host):
        for key, value in section.items():
            if isinstance(value, list):
                made.setdefault(key, []).extend(value)
            elif key == "params":
                params = made.get(key, {})
                made[key] = {
                    **params,
                    **{rule: {**params.get(rule, {}), **values} for rule, values in value.items()},
                }
            elif isinstance(value, dict):
                made[key] = {**made.get(key, {}), **value}
            else:
                made[key] = value
    return made


def _sections_of(
    data: Mapping[str, Any], host: Answer[str]
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """(pattern, section) of those that fit the host, in the order of the file."""
    names = (host, host.partition(".")[0]) if isinstance(host, str) else ()
    sections = data.get("hosts", {}).items()
    return tuple(one for one in sections if any(fits_glob(name, one[0]) for name in names))


def _select_parts(
    data: Mapping[str, Any], host: Answer[str]
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """The parts that hold on a host, each with where its keys stand."""
    return (("", data), *((f"hosts.{pattern}.", one) for pattern, one in _sections_of(data, host)))


def _read_sections(document: YamlFile, host: Answer[str]) -> tuple[HostSection, ...]:
    data = document.data or {}
    fitting = {pattern for pattern, _ in _sections_of(data, host)}
    return tuple(
        HostSection(one, document.where(f"hosts.{one}"), one in fitting)
        for one in data.get("hosts", {})
    )


def _read_statements(
    document: YamlFile, catalog: Catalog, host: Answer[str]
) -> tuple[Statement, ...]:
    """What the file says of single rules on this host, each with its place."""
    found: list[Statement] = []
    for prefix, part in _select_parts(document.data or {}, host):
        for number, name in enumerate(part.get("select", ())):
            found.append(
                Statement(
                    "select", catalog.current(name), document.where(f"{prefix}select[{number}]")
                )
            )
        for number, entry in enumerate(part.get("ignore", ())):
            where = document.where(f"{prefix}ignore[{number}]")
            if isinstance(entry, str):
                found.append(Statement("ignore", catalog.current(entry), where))
            else:
                found.append(
                    Statement(
                        "waiver", catalog.current(entry["rule"]), where, entry.get("subject", "")
                    )
                )
        params = part.get("params", {})
        found += [
            Statement("params", catalog.current(one), document.where(f"{prefix}params.{one}"))
            for one in params
        ]
    # A name that is gone has a note already, and would be remarked on a second time as one without
    # effect.
    return tuple(one for one in found if one.rule not in GONE)


def _named_by(data: Mapping[str, Any], key: str, host: Answer[str], file: str) -> str:
    """Which part of the file has the last word on a key: `p.yaml`, `p.yaml (hosts: gpu-*)`; empty
    for none.
    """
    patterns = [pattern for pattern, section in _sections_of(data, host) if key in section]
    return f"{file} (hosts: {patterns[-1]})" if patterns else file if key in data else ""


def _data_mount(entry: Mapping[str, Any]) -> DataMount:
    given = {**entry, "options": tuple(entry["options"])} if "options" in entry else dict(entry)
    return DataMount(**given)
