"""Each value of the chart does something: with another value, something else is rendered, which Kubernetes takes."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.chart import CHART, Manifest, rendered, versions, violations, why_absent

pytestmark = pytest.mark.skipif(why_absent() is not None, reason=why_absent() or "")

CONFIG = '[store]\nurl = "${URL}"\n[[keys]]\nname = "a"\nkey = "${KEY}"\n'
BASE: dict[str, Any] = {
    "config": CONFIG,
    "autoscaling": {"enabled": True},
    "serviceMonitor": {"enabled": True, "credentials": {"secretName": "gateway", "key": "metrics"}},
    "prometheusRule": {"enabled": True},
}
LABELS = {"changed": "yes"}
OF_OPERATORS = {"ServiceMonitor", "PrometheusRule"}
"""Not Kubernetes' own: its schemas do not have them."""
OTHER: dict[str, Any] = {
    "kind": "Deployment",
    "replicas": 3,
    "workers": 4,
    "image.repository": "registry.example/gateway",
    "image.tag": "9",
    "image.digest": f"sha256:{'a' * 64}",
    "image.pullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "config": f'{CONFIG}[server]\nhealth_listen = "0.0.0.0:8081"\n',
    "secretName": "other",
    "env": [{"name": "A", "value": "b"}],
    "envFrom": [{"secretRef": {"name": "other"}}],
    "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "volumeMounts": [{"name": "config", "mountPath": "/ca"}],
    "persistence.size": "5Gi",
    "persistence.storageClass": "fast",
    "persistence.accessMode": "ReadWriteOncePod",
    "preStopSeconds": 0,
    "resources": {"limits": {"memory": "1Gi"}},
    "service.type": "LoadBalancer",
    "service.port": 8080,
    "service.annotations": LABELS,
    "serviceAccount.create": False,
    "serviceAccount.name": "own",
    "serviceAccount.annotations": LABELS,
    "serviceAccount.automountToken": True,
    "autoscaling.enabled": False,
    "autoscaling.minReplicas": 3,
    "autoscaling.maxReplicas": 4,
    "autoscaling.openStreams": 50,
    "podDisruptionBudget.enabled": False,
    "podDisruptionBudget.maxUnavailable": "50%",
    "serviceMonitor.enabled": False,
    "serviceMonitor.interval": "10s",
    "serviceMonitor.labels": LABELS,
    "serviceMonitor.tlsConfig": {"insecureSkipVerify": True},
    "serviceMonitor.credentials.secretName": "other",
    "serviceMonitor.credentials.key": "other",
    "prometheusRule.enabled": False,
    "prometheusRule.labels": LABELS,
    "networkPolicy.enabled": False,
    "networkPolicy.from": [{"namespaceSelector": {}}],
    "networkPolicy.egress": [{"ports": [{"port": 5432}]}],
    "networkPolicy.exceptCIDRs": [],
    "podAnnotations": LABELS,
    "podLabels": LABELS,
    "nodeSelector": LABELS,
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "priorityClassName": "high",
}
NEEDED: dict[str, dict[str, Any]] = {
    "replicas": {"autoscaling.enabled": False},
    "serviceAccount.create": {"serviceAccount.name": "own"},
}
"""What else must be set for the value to count."""


def put(values: dict[str, Any], path: str, value: Any) -> None:
    *tables, name = path.split(".")
    for table in tables:
        values = values.setdefault(table, {})
    values[name] = value


def names_of(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value and prefix + name != "resources":
            yield from names_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_no_value_is_missing_here() -> None:
    assert {*names_of(yaml.safe_load((CHART / "values.yaml").read_text()))} == OTHER.keys()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("values")


def render(folder: Path, file: str, changes: dict[str, Any]) -> tuple[Manifest, ...]:
    """What is rendered is kept by the name of the file."""
    values = copy.deepcopy(BASE)
    for path, value in changes.items():
        put(values, path, value)
    (folder / file).write_text(yaml.safe_dump(values))
    return rendered("-f", str(folder / file))


@pytest.mark.parametrize("name", OTHER)
def test_another_value_renders_something_else(name: str, folder: Path) -> None:
    needed = NEEDED.get(name, {})
    before = render(folder, "-".join(["before", *needed]), needed)
    after = render(folder, name, needed | {name: OTHER[name]})
    assert before != after
    changed = [each for each in after if each not in before and each["kind"] not in OF_OPERATORS]
    assert [violations(versions()[-1], each) for each in changed] == [[] for _ in changed]
