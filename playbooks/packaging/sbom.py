"""What an artefact carries, as a CycloneDX document (cyclonedx.org/docs/1.5/json): scanners see no
PyYAML in a .deb.
"""

from __future__ import annotations

import json
import uuid

from carried import Carried
from locked import pins

_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of URLs, RFC 9562


def sbom(carried: tuple[Carried, ...], version: str) -> str:
    """The document; the same for the same sources, so it bears no time."""
    wheels = {pin.name: pin.wheel for pin in pins()}
    parts = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{one.name}@{one.version}",
            "name": one.name,
            "version": one.version,
            "purl": f"pkg:pypi/{one.name}@{one.version}",
            "licenses": [{"license": {"name": one.licence or "see the copyright file"}}],
            "hashes": [{"alg": "SHA-256", "content": wheels[one.name]}],
        }
        for one in carried
    ]
    own = f"pkg:generic/hosttune@{version}"
    told = json.dumps([own, parts], sort_keys=True)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, told)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "hosttune",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(document, indent=2) + "\n"
