"""The Helm chart: what it renders is valid for Kubernetes and fits the gateway, and what would not work is refused."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamweir import __version__
from streamweir.cli.commands.serve import command as serve
from streamweir.config.load import load_config
from streamweir.config.model import Config
from streamweir.config.secret_text import WithSecrets
from support.chart import (
    CHART,
    ROOT,
    VALUES,
    RenderFailed,
    helm,
    one_of,
    rendered,
    versions,
    violations,
    why_absent,
)
from support.deploy_files import DEPLOY, RULES, rules
from support.promql import read_query

pytestmark = pytest.mark.skipif(why_absent() is not None, reason=why_absent() or "")

SETS = {"default": (), **{path.stem: ("-f", str(path)) for path in VALUES.glob("*.yaml")}}
WORKLOADS = ("StatefulSet", "Deployment")
OF_OPERATORS = {"ServiceMonitor", "PrometheusRule"}
"""Not Kubernetes' own: its schemas do not have them."""
KEY = "sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"
DOCKERFILE = (ROOT / "Dockerfile").read_text()

each_set = pytest.mark.parametrize("name", SETS)


def values_of(name: str) -> Any:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    own = yaml.safe_load(Path(SETS[name][1]).read_text()) if SETS[name] else {}
    return {**values, **own}


def pod_of(name: str) -> Any:
    return one_of(rendered(*SETS[name]), *WORKLOADS)["spec"]["template"]


def container_of(name: str) -> Any:
    (container,) = pod_of(name)["spec"]["containers"]
    return container


def config_of(name: str, folder: Path) -> Config:
    """As the gateway reads it in the pod, with a secret in each file and variable that is named."""
    text = str(one_of(rendered(*SETS[name]), "ConfigMap")["data"]["streamweir.toml"])
    for file in re.findall(r'"/run/secrets/(\S+?)"', text):
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"valkey://{KEY}@valkey" if path.name == "valkey-url" else f"{KEY}-{path.name}")
    (folder / "streamweir.toml").write_text(text.replace("/run/secrets/", f"{folder}/"))
    names = re.findall(r"\$\{(\w+)\}", text)
    environ = {each: "postgresql://gateway@database/gateway" if "URL" in each else f"{KEY}-{each}" for each in names}
    return load_config(folder / "streamweir.toml", environ)


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from walk(each)


@each_set
def test_kubernetes_takes_what_is_rendered(name: str) -> None:
    supported = [version for version in versions() if int(version.split(".")[1]) >= 30]
    assert supported
    manifests = rendered(*SETS[name])
    for version in (supported[0], supported[-1]):
        for manifest in manifests:
            if manifest["kind"] not in OF_OPERATORS:
                assert violations(version, manifest) == [], f"{manifest['kind']}, Kubernetes {version}"


def test_the_example_of_the_document_can_be_installed(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs/kubernetes.md").read_text(), re.MULTILINE | re.DOTALL)
    (example,) = [block for block in blocks if block.startswith("replicas:")]
    (tmp_path / "values.yaml").write_text(example)
    manifests = rendered("-f", str(tmp_path / "values.yaml"))
    assert one_of(manifests, "StatefulSet")["spec"]["replicas"] == 3
    for manifest in manifests:
        if manifest["kind"] not in OF_OPERATORS:
            assert violations(versions()[-1], manifest) == []


def test_prometheus_reads_with_a_key_that_is_for_nothing_else(tmp_path: Path) -> None:
    credentials = one_of(rendered(*SETS["postgres"]), "ServiceMonitor")["spec"]["endpoints"][0]["authorization"]
    entry = f"{KEY}-{credentials['credentials']['key']}"
    (key,) = [each for each in config_of("postgres", tmp_path).keys if str(each.key) == entry]
    assert key.scopes == ("metrics",)


def test_an_unknown_member_deep_inside_would_be_found() -> None:
    manifest = copy.deepcopy(one_of(rendered(), *WORKLOADS))
    manifest["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["periodSecond"] = 1
    assert violations(versions()[-1], manifest)


def test_each_kind_is_rendered_by_one_of_the_sets() -> None:
    assert {manifest["kind"] for name in SETS for manifest in rendered(*SETS[name])} == {
        *("ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "Service"),
        *("PrometheusRule", "ServiceAccount", "ServiceMonitor", "StatefulSet"),
    }


@each_set
def test_the_gateway_takes_its_configuration_and_its_arguments(name: str, tmp_path: Path) -> None:
    config = config_of(name, tmp_path)
    context = serve.make_context("serve", list(container_of(name)["args"][1:]))
    assert container_of(name)["args"][0] == serve.name
    assert context.params["workers"] == values_of(name)["workers"]
    assert str(context.params["config_file"]) == "/etc/streamweir/streamweir.toml"
    ports = {port["name"]: port["containerPort"] for port in container_of(name)["ports"]}
    expected = {"http": int(context.params["listen"].rpartition(":")[2])}
    if config.server.health_listen is not None:
        expected["health"] = int(config.server.health_listen.rpartition(":")[2])
    assert ports == expected


@each_set
def test_a_pod_may_drain_as_long_as_the_gateway_does(name: str, tmp_path: Path) -> None:
    timeouts = config_of(name, tmp_path).server.timeouts
    needed = values_of(name)["preStopSeconds"] + timeouts.lame_duck_s + timeouts.drain_s
    grace = pod_of(name)["spec"]["terminationGracePeriodSeconds"]
    assert needed + 10 <= grace <= needed + 20
    hook = container_of(name).get("lifecycle", {}).get("preStop", {"sleep": {"seconds": 0}})
    assert hook == {"sleep": {"seconds": values_of(name)["preStopSeconds"]}}


@each_set
def test_probes_ask_for_what_the_gateway_answers(name: str, tmp_path: Path) -> None:
    server = config_of(name, tmp_path).server
    container = container_of(name)
    probes = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    assert {probe: asked["path"] for probe, asked in probes.items()} == {
        "startup": "/health",
        "liveness": "/health",
        "readiness": "/ready",
    }
    port = "health" if server.health_listen is not None else "http"
    scheme = "HTTPS" if server.tls is not None and port == "http" else "HTTP"
    assert {(asked["port"], asked["scheme"]) for asked in probes.values()} == {(port, scheme)}


@each_set
def test_the_pod_has_no_rights_and_writes_to_its_volumes_only(name: str) -> None:
    pod = pod_of(name)["spec"]
    uid = int(re.findall(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)[0])
    assert pod["securityContext"].items() >= {
        ("runAsNonRoot", True),
        ("runAsUser", uid),
        ("runAsGroup", uid),
        ("fsGroup", uid),
    }
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container_of(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod["automountServiceAccountToken"]
    writable = {mount["mountPath"] for mount in container_of(name)["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {*re.findall(r"STREAMWEIR_DATA=(\S+)", DOCKERFILE), "/tmp"}  # noqa: S108


@each_set
def test_a_journal_outlives_the_pod_of_a_stateful_set(name: str) -> None:
    workload = one_of(rendered(*SETS[name]), *WORKLOADS)
    assert workload["kind"] == values_of(name)["kind"]
    (mount,) = [each for each in container_of(name)["volumeMounts"] if each["mountPath"] == "/var/lib/streamweir"]
    volumes = {volume["name"]: volume for volume in workload["spec"]["template"]["spec"]["volumes"]}
    size = values_of(name)["persistence"]["size"]
    if workload["kind"] == "StatefulSet":
        (claim,) = workload["spec"]["volumeClaimTemplates"]
        assert claim["metadata"]["name"] == mount["name"]
        assert claim["spec"]["resources"]["requests"]["storage"] == size
        assert workload["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Retain"
    else:
        assert volumes[mount["name"]]["emptyDir"] == {"sizeLimit": size}
        assert workload["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@each_set
def test_selectors_find_the_pods_and_ports_have_names(name: str) -> None:
    manifests = rendered(*SETS[name])
    workload = one_of(manifests, *WORKLOADS)
    labels = workload["spec"]["template"]["metadata"]["labels"].items()
    ports = {port["name"] for port in container_of(name)["ports"]}
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels
    assert one_of(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels
    policy = one_of(manifests, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels
    assert {port["port"] for port in policy["ingress"][0]["ports"]} == {"http"}
    services = [each for each in manifests if each["kind"] == "Service"]
    for service in services:
        assert service["spec"]["selector"].items() <= labels
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    if workload["kind"] == "StatefulSet":
        assert workload["spec"]["serviceName"] in {service["metadata"]["name"] for service in services}


def test_prometheus_reads_one_service_with_a_key_and_the_autoscaler_a_metric_that_exists() -> None:
    manifests = rendered(*SETS["postgres"])
    monitor = one_of(manifests, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = [
        each for each in manifests if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
    ]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"]["credentials"] == {"name": "gateway-secrets", "key": "metrics-key"}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    scaler = one_of(manifests, "HorizontalPodAutoscaler")["spec"]
    workload = one_of(manifests, *WORKLOADS)
    assert scaler["scaleTargetRef"] == {
        **{member: workload[member] for member in ("apiVersion", "kind")},
        "name": workload["metadata"]["name"],
    }
    assert "replicas" not in workload["spec"], "each upgrade would undo what the autoscaler has done"
    (metric,) = [each["pods"]["metric"]["name"] for each in scaler["metrics"]]
    assert f"| `{metric}` | gauge |" in (ROOT / "docs/monitoring.md").read_text()
    assert f"name: {{ as: {metric} }}" in (ROOT / "docs/kubernetes.md").read_text()


def jobs_of(query: str) -> set[str]:
    """The values of the label `job` that a query asks for."""
    return {value for _, values in read_query(query).selectors for value in values.get("job", ())}


def test_rules_find_the_job_that_the_chart_and_the_configuration_of_prometheus_give() -> None:
    """A rule that asks for another job is silent for ever."""
    manifests = rendered(*SETS["postgres"])
    monitor = one_of(manifests, "ServiceMonitor")["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    (service,) = [
        each for each in manifests if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
    ]
    given = {service["metadata"]["labels"][monitor["jobLabel"]]}
    beside = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text())
    assert {each["job_name"] for each in beside["scrape_configs"]} == given
    assert set().union(*(jobs_of(rule["expr"]) for rule in rules())) == given


def test_the_rules_of_the_chart_are_those_beside_it() -> None:
    rule = one_of(rendered(*SETS["postgres"]), "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus", "by which a Prometheus finds it"


@each_set
def test_no_secret_is_rendered_and_each_is_a_reference(name: str) -> None:
    manifests = rendered(*SETS[name])
    assert not [each for each in manifests if each["kind"] == "Secret"]
    for env in (each for part in walk(list(manifests)) for each in part.get("env", [])):
        assert set(env) == {"name", "valueFrom"}


def test_a_change_of_the_configuration_restarts_the_pods() -> None:
    before, after = (
        one_of(rendered(*flags), "StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        for flags in ((), ("--set-string", 'config=[[keys]]\nname = "a"\nkey = "${KEY}"'))
    )
    assert before != after


TABLES = '[[keys]]\nname = "a"\nkey = "${KEY}"\n'
REFUSED = {
    "several replicas on SQLite": (("--set", "replicas=2"), "use PostgreSQL"),
    "an autoscaler on SQLite": (("--set", "autoscaling.enabled=true"), "use PostgreSQL"),
    "a Deployment on SQLite": (("--set", "kind=Deployment"), "use PostgreSQL"),
    "a value that does not exist": (("--set", "replica=2"), "replica"),
    "a kind that is not known": (("--set", "kind=DaemonSet"), "kind"),
    "a file that is not TOML": (("--set-string", "config=[server"), "config is not TOML"),
    "no key": (("--set-string", "config=[server]"), "config has no [[keys]]"),
    "a time that the chart cannot read": (
        ("--set-string", f'config=[server.timeouts]\ndrain_s = "${{DRAIN}}"\n{TABLES}'),
        "server.timeouts.drain_s must be a number here",
    ),
    "metrics without a key": (
        ("--set", "serviceMonitor.enabled=true"),
        "serviceMonitor.credentials.secretName is needed",
    ),
    **{
        f"probes at {listen}": (
            ("--set-string", f'config=[server]\nhealth_listen = "{listen}"\n{TABLES}'),
            f"server.health_listen {listen} is a loopback address, which no probe can reach: use 0.0.0.0:8081",
        )
        for listen in ("127.0.0.1:8081", "localhost:8081", "LocalHost:8081", "[::1]:8081", "[0:0:0:0:0:0:0:1]:8081")
    },
    "probes at the port of the API": (
        ("--set-string", f'config=[server]\nhealth_listen = "0.0.0.0:8080"\n{TABLES}'),
        "server.health_listen 0.0.0.0:8080 has the port of the API",
    ),
    "probes at an address that the chart cannot read": (
        ("--set-string", f'config=[server]\nhealth_listen = "${{HEALTH}}"\n{TABLES}'),
        "server.health_listen must be HOST:PORT here",
    ),
    "an account without a name": (("--set", "serviceAccount.create=false"), "serviceAccount.name is needed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_not_work_is_refused(case: str) -> None:
    flags, message = REFUSED[case]
    with pytest.raises(RenderFailed, match=re.escape(message)):
        rendered(*flags)


INLINE = {
    "config.keys[0].key": f'[[keys]]\nname = "a"\nkey = "{KEY}"\n',
    "config.providers[0].api_keys[0]": f'{TABLES}[[providers]]\nname = "a"\nkind = "openai"\napi_keys = ["{KEY}"]\n',
    "config.providers[0].headers.Authorization": (
        f'{TABLES}[[providers]]\nname = "a"\nkind = "sim"\nheaders = {{ Authorization = "{KEY}" }}\n'
    ),
    "config.store.url": f'{TABLES}[store]\nurl = "postgresql://gateway:{KEY}@database/gateway"\n',
    "config.webhooks[0].url": f'{TABLES}[[webhooks]]\nname = "a"\nurl = "https://hooks.example/{KEY}"\n',
}


@pytest.mark.parametrize("path", INLINE)
def test_a_secret_in_plain_text_is_refused_and_not_repeated(path: str, tmp_path: Path) -> None:
    """A ConfigMap is read by many."""
    (tmp_path / "streamweir.toml").write_text(INLINE[path])
    with pytest.raises(RenderFailed, match=re.escape(f"{path} is a secret in plain text")) as failure:
        rendered("--set-file", f"config={tmp_path}/streamweir.toml")
    assert KEY not in str(failure.value)


def tables_with_secrets(table: type[WithSecrets] = WithSecrets) -> Iterator[type[WithSecrets]]:
    for each in table.__subclasses__():
        yield each
        yield from tables_with_secrets(each)


def test_the_chart_knows_every_secret_of_the_configuration() -> None:
    (known,) = re.findall(r"has \$name \(list ([^)]*)\)", (CHART / "templates/_helpers.tpl").read_text())
    elsewhere = {"url", "proxy", "headers"}  # refused by their form or place, as above
    names = {name for table in tables_with_secrets() for name in table.secrets} - elsewhere
    assert names - {*re.findall(r'"(\w+)"', known)} == set()


def test_values_are_documented() -> None:
    """The table of docs/kubernetes.md has each value with its default."""
    text = (ROOT / "docs/kubernetes.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| (.+?) \| .+ \|$", text, re.MULTILINE)
    expected = {
        name: "the simulator" if name == "config" else shown(value) for name, value in leaves(values_of("default"))
    }
    assert dict(rows) == expected
    assert len(rows) == len(expected)


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value and prefix + name != "resources":
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def shown(value: Any) -> str:
    if value in ("", [], {}):
        return "empty"
    return f"`{yaml.safe_dump(value, default_flow_style=True, sort_keys=False).removesuffix('...' + chr(10)).strip()}`"


def test_the_commands_of_the_document_name_what_the_chart_makes() -> None:
    """They are copied in the middle of an upgrade."""
    page = (ROOT / "docs/kubernetes.md").read_text()
    manifests = tuple(yaml.safe_load_all(helm("template", "gateway", str(CHART))))
    workload = one_of(tuple(each for each in manifests if each), "StatefulSet")
    named = re.findall(r"kubectl .*?statefulset/(\S+)", page)
    assert len(named) >= 4
    assert set(named) == {workload["metadata"]["name"]}
    (selector,) = re.findall(r"--selector (\S+)", page)
    assert dict(each.split("=") for each in selector.split(",")) == workload["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize("page", ["operations.md", "upgrading.md"])
def test_there_is_one_procedure_for_upgrades_on_kubernetes(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert "(kubernetes.md#new-versions)" in text
    assert "Recreate" not in text, "a StatefulSet has no such strategy, and the chart none of a Deployment"


def test_helm_has_no_complaint_and_the_chart_is_of_this_version() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    assert container_of("default")["image"] == f"streamweir:{__version__}"
