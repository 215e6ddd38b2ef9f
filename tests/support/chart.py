"""The Helm chart, rendered by Helm, and the schemas that manifests and compose.yaml must keep.

    manifests = rendered("-f", str(VALUES / "postgres.yaml"))
    assert violations("1.30", manifests[0]) == []

Helm and the schemas are what `make test` installs into .venv/deploy (requirements/deploy.in); another Helm is named by
`STREAMWEIR_HELM`. Where they cannot be installed, `why_absent` says so.
"""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/streamweir"
VALUES = ROOT / "tests/deploy/values"
_PACKAGES = ROOT / ".venv/deploy"
_KUBERNETES = _PACKAGES / "kubernetes_validate/kubernetes-json-schema"
_COMPOSE = _PACKAGES / "check_jsonschema/builtin_schemas/vendor/compose-spec.json"
Manifest = dict[str, Any]


class RenderFailed(Exception):
    """The text is what Helm said."""


def _helm() -> str | None:
    ours = _PACKAGES / "bin/helm"
    return os.environ.get("STREAMWEIR_HELM") or (str(ours) if ours.exists() else shutil.which("helm"))


def why_absent() -> str | None:
    if _helm() is None:
        return "there is no Helm: `make .venv/stamp/deploy` installs it, or name one in STREAMWEIR_HELM"
    return why_no_schemas()


def why_no_schemas() -> str | None:
    return None if _KUBERNETES.exists() and _COMPOSE.exists() else "no schemas: `make .venv/stamp/deploy` installs them"


def helm(*words: str) -> str:
    program = _helm()
    assert program is not None
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    if done.returncode != 0:
        raise RenderFailed(done.stderr)
    return done.stdout


@cache
def rendered(*flags: str) -> tuple[Manifest, ...]:
    """As the release `sw` in the namespace `gateway`. Raises `RenderFailed`."""
    text = helm("template", "sw", str(CHART), "--namespace", "gateway", *flags)
    return tuple(each for each in yaml.safe_load_all(text) if each is not None)


def one_of(manifests: tuple[Manifest, ...], *kinds: str) -> Manifest:
    (found,) = [each for each in manifests if each["kind"] in kinds]
    return found


def versions() -> list[str]:
    """Of Kubernetes, whose schemas are installed: `1.30`."""
    names = {path.name.split("-")[0].removeprefix("v").removesuffix(".0") for path in _KUBERNETES.iterdir()}
    return sorted(names, key=lambda name: [int(part) for part in name.split(".")])


def violations(version: str, manifest: Manifest) -> list[str]:
    """What the API server of that version, or kubectl, would refuse: unknown members included."""
    return [error.message for error in _validator(version, _schema_name(manifest)).iter_errors(manifest)]


def compose_violations(document: Manifest) -> list[str]:
    validator = jsonschema_rs.validator_for(json.loads(_COMPOSE.read_text()))
    return [error.message for error in validator.iter_errors(document)]


def _schema_name(manifest: Manifest) -> str:
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    return "-".join(filter(None, (str(manifest["kind"]).lower(), group.split(".")[0], version)))


@cache
def _validator(version: str, name: str) -> Any:
    folder = _KUBERNETES / f"v{version}.0-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_text())
    schema = json.loads((folder / f"{name}.json").read_text())
    return jsonschema_rs.validator_for(schema, registry=jsonschema_rs.Registry([("_definitions.json", definitions)]))
