#!/usr/bin/python3
"""The Helm chart, rendered by Helm and checked against Kubernetes' API.

No package contains Kubernetes' OpenAPI schemas, so SHAPES below lists, from the API's reference, every field that
the chart uses: any other field is a finding, as a misspelled one would be. It was never run on a cluster.
"""
import base64
import json
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import go_program  # noqa: E402
from verbena_server import program  # noqa: E402

CHART = ROOT / "deploy" / "helm"
STRING, NUMBER, BOOL, TEXTS = str, int, bool, [str]
PORT = (str, int)
MAP = {"*": str}
METADATA = {"name": STRING, "namespace": STRING, "labels": MAP, "annotations": MAP}
SELECTOR = {"matchLabels": MAP}
PROBE = {"httpGet": {"path": STRING, "port": PORT}, "periodSeconds": NUMBER, "timeoutSeconds": NUMBER, "failureThreshold": NUMBER}
CONTAINER = {
    "name!": STRING, "image!": STRING, "imagePullPolicy": STRING, "command": TEXTS, "args": TEXTS,
    "env": [{"name!": STRING, "value": STRING, "valueFrom": {"*": object}}],
    "ports": [{"name": STRING, "containerPort!": NUMBER}],
    "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE,
    "resources": {"requests": {"*": (str, int)}, "limits": {"*": (str, int)}},
    "securityContext": {"allowPrivilegeEscalation": BOOL, "readOnlyRootFilesystem": BOOL, "runAsNonRoot": BOOL, "runAsUser": NUMBER,
                        "capabilities": {"drop": TEXTS, "add": TEXTS}},
    "volumeMounts": [{"name!": STRING, "mountPath!": STRING, "readOnly": BOOL}],
}
POD = {
    "metadata": METADATA,
    "spec": {
        "serviceAccountName": STRING, "automountServiceAccountToken": BOOL, "enableServiceLinks": BOOL,
        "terminationGracePeriodSeconds": NUMBER, "hostNetwork": BOOL, "dnsPolicy": STRING, "priorityClassName": STRING,
        "imagePullSecrets": [{"name": STRING}],
        "securityContext": {"runAsNonRoot": BOOL, "runAsUser": NUMBER, "runAsGroup": NUMBER, "fsGroup": NUMBER,
                            "fsGroupChangePolicy": STRING, "seccompProfile": {"type": STRING}},
        "initContainers": [CONTAINER], "containers!": [CONTAINER],
        "volumes": [{"name!": STRING, "configMap": {"name": STRING}, "secret": {"secretName": STRING, "defaultMode": NUMBER},
                     "hostPath": {"path": STRING, "type": STRING}}],
        "nodeSelector": MAP, "tolerations": [{"*": object}], "affinity": {"*": object}, "topologySpreadConstraints": [{"*": object}],
    },
}
CLAIM = {"metadata": METADATA, "spec": {"accessModes": TEXTS, "storageClassName": STRING, "resources": {"requests": {"storage": STRING}}}}
TYPE = {"apiVersion!": STRING, "kind!": STRING, "metadata!": METADATA}
SHAPES = {
    ("apps/v1", "StatefulSet"): {**TYPE, "spec!": {
        "selector!": SELECTOR, "serviceName!": STRING, "replicas": NUMBER, "podManagementPolicy": STRING, "template!": POD,
        "volumeClaimTemplates": [CLAIM]}},
    ("apps/v1", "DaemonSet"): {**TYPE, "spec!": {
        "selector!": SELECTOR, "template!": POD, "updateStrategy": {"type": STRING, "rollingUpdate": {"maxUnavailable": PORT}}}},
    ("v1", "Service"): {**TYPE, "spec!": {
        "type": STRING, "clusterIP": STRING, "publishNotReadyAddresses": BOOL, "internalTrafficPolicy": STRING, "selector": MAP,
        "ports!": [{"name": STRING, "port!": NUMBER, "targetPort": PORT}]}},
    ("v1", "ConfigMap"): {**TYPE, "data": MAP},
    ("v1", "Secret"): {**TYPE, "type": STRING, "data": MAP},
    ("v1", "ServiceAccount"): {**TYPE, "automountServiceAccountToken": BOOL},
    ("policy/v1", "PodDisruptionBudget"): {**TYPE, "spec!": {"maxUnavailable": PORT, "selector": SELECTOR}},
    ("networking.k8s.io/v1", "NetworkPolicy"): {**TYPE, "spec!": {
        "podSelector!": SELECTOR, "policyTypes": TEXTS,
        "ingress": [{"ports": [{"port": PORT, "endPort": NUMBER, "protocol": STRING}],
                     "from": [{"podSelector": {"*": object}, "namespaceSelector": {"*": object}, "ipBlock": {"*": object}}]}]}},
    ("monitoring.coreos.com/v1", "ServiceMonitor"): {**TYPE, "spec!": {
        "selector!": SELECTOR, "jobLabel": STRING, "endpoints!": [{"port": STRING, "path": STRING, "interval": STRING}]}},
}


def findings(value, shape, at):
    """Mismatches between `value` and the shape: unknown fields, types, missing ones ("name!" is required)."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{at}: wants a list"]
        return [text for i, item in enumerate(value) for text in findings(item, shape[0], f"{at}[{i}]")]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{at}: wants fields, has {value!r}"]
        out = [f"{at}.{name[:-1]} is missing" for name in shape if name.endswith("!") and name[:-1] not in value]
        for name, item in value.items():
            below = shape.get(name, shape.get(name + "!", shape.get("*")))
            out += [f"{at}.{name} is no field"] if below is None else findings(item, below, f"{at}.{name}")
        return out
    ok = isinstance(value, shape) and not (isinstance(value, bool) and shape in (NUMBER, PORT))
    return [] if ok else [f"{at}: {value!r} is not of its type"]


class Chart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.renderer = go_program.build(ROOT / "tests/package/render_chart.go", "github.com/Masterminds/sprig")
        assert cls.renderer, "needs go and golang-github-masterminds-sprig-dev"

    def run_renderer(self, values, secrets=None):
        asked = {"chart": str(CHART), "name": "shop", "namespace": "data", "values": values, "secrets": secrets or {}}
        return subprocess.run([str(self.renderer)], input=json.dumps(asked), capture_output=True, text=True, timeout=60)

    def render(self, values=None, secrets=None):
        done = self.run_renderer(values or {}, secrets)
        self.assertEqual(done.returncode, 0, done.stderr)
        out = {}
        for file, text in json.loads(done.stdout).items():
            for document in yaml.safe_load_all(text):
                if document is None:
                    continue
                kind = (document["apiVersion"], document["kind"])
                self.assertIn(kind, SHAPES, file)
                self.assertEqual(findings(document, SHAPES[kind], f"{file} {kind[1]}"), [])
                self.assertRegex(document["metadata"]["name"], r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
                self.assertEqual(document["metadata"]["namespace"], "data")
                out[kind[1], document["metadata"]["name"]] = document
        self.references(out)
        return out

    def references(self, all_of_it):
        """References between objects resolve: selectors select the pods, mounts have volumes, ports have names."""
        work = next(doc for (kind, _), doc in all_of_it.items() if kind in ("StatefulSet", "DaemonSet"))
        pod = work["spec"]["template"]
        labels = pod["metadata"]["labels"].items()
        self.assertLessEqual(work["spec"]["selector"]["matchLabels"].items(), labels)
        volumes = {v["name"] for v in pod["spec"]["volumes"]} | {c["metadata"]["name"] for c in work["spec"].get("volumeClaimTemplates", [])}
        names = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
            self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
            limits, requests = (container.get("resources", {}).get(key, {}) for key in ("limits", "requests"))
            for resource in set(limits) | set(requests):
                if "/" in resource or resource.startswith("hugepages"):  # Kubernetes requires equal request and limit
                    self.assertEqual(limits.get(resource), requests.get(resource), resource)
        for (kind, name), doc in all_of_it.items():
            if kind == "Service":
                self.assertLessEqual(doc["spec"]["selector"].items(), labels)
                self.assertLessEqual({port["targetPort"] for port in doc["spec"]["ports"] if isinstance(port["targetPort"], str)}, names)
        if work["kind"] == "StatefulSet":
            self.assertIn(("Service", work["spec"]["serviceName"]), all_of_it)
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                self.assertIn(("ConfigMap", volume["configMap"]["name"]), all_of_it)

    def pod(self, all_of_it):
        return next(doc for (kind, _), doc in all_of_it.items() if kind in ("StatefulSet", "DaemonSet"))["spec"]["template"]

    def test_defaults_are_a_stateful_set_with_all_that_belongs_to_it(self):
        kinds = sorted(kind for kind, _ in self.render())
        self.assertEqual(kinds, ["ConfigMap", "PodDisruptionBudget", "Secret", "Service", "Service", "ServiceAccount", "StatefulSet"])

    def test_every_switch_renders(self):
        everything = self.render({
            "config": {"arena_size": "1 GiB", "rdma": {"provider": ["verbs", "local"]}}, "localSocket": {"enabled": True},
            "hugepages2Mi": "512Mi", "rdmaResources": {"rdma/hca": 1}, "networks": ["rdma-a", "rdma-b"], "ipcLock": True,
            "hostNetwork": True, "networkPolicy": {"enabled": True, "clients": [{"podSelector": {}}],
                                                   "monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
            "serviceMonitor": {"enabled": True, "labels": {"release": "prom"}}, "priorityClassName": "high",
            "persistence": {"storageClass": "fast"}, "imagePullSecrets": [{"name": "pull"}], "podLabels": {"team": "data"},
            "podAnnotations": {"a": "b"}, "nodeSelector": {"rdma": "yes"}, "tolerations": [{"operator": "Exists"}],
            "extraEnv": [{"name": "VERBENA_CORES", "value": "4"}], "service": {"type": "LoadBalancer", "annotations": {"x": "y"}},
            "affinity": {"nodeAffinity": {}}, "topologySpreadConstraints": [{"maxSkew": 1}], "serviceAccount": {"annotations": {"r": "s"}}})
        pod = self.pod(everything)
        container = pod["spec"]["containers"][0]
        self.assertEqual(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"], "rdma-a,rdma-b")
        self.assertEqual(container["resources"]["limits"]["rdma/hca"], 1)
        self.assertEqual(container["resources"]["requests"]["hugepages-2Mi"], "512Mi")
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"], "add": ["IPC_LOCK"]})
        self.assertTrue(pod["spec"]["hostNetwork"])
        self.assertIn(("NetworkPolicy", "shop"), everything)
        self.assertIn(("ServiceMonitor", "shop"), everything)

    def test_clients_reach_every_port_of_the_native_door(self):
        everything = self.render({"ports": {"fabric": "9201-9203"}, "networkPolicy": {"enabled": True}})
        env = {one["name"]: one.get("value") for one in self.pod(everything)["spec"]["containers"][0]["env"]}
        self.assertEqual(env["VERBENA_RDMA_FABRIC_PORTS"], "9201-9203")
        for name in ("shop", "shop-pods"):
            ports = {port["port"]: port["targetPort"] for port in everything["Service", name]["spec"]["ports"]}
            self.assertLessEqual({number: number for number in (9201, 9202, 9203)}.items(), ports.items())
        allowed = everything["NetworkPolicy", "shop"]["spec"]["ingress"][0]["ports"]
        self.assertIn({"port": 9201, "endPort": 9203, "protocol": "TCP"}, allowed)
        for wrong in ("9200", "9203-9201", "a-b", "1-99999"):
            self.assertIn(f"ports.fabric: {wrong} is not a range", self.run_renderer({"ports": {"fabric": wrong}}).stderr)

    def test_the_ports_of_the_native_door_suffice_and_are_no_others(self):
        for wrong, said in (({"config": {"cores": 24}}, "9101-9116 has fewer ports than config.cores (24)"),
                            ({"ports": {"admin": 9105}}, "ports.admin: 9105 lies in ports.fabric (9101-9116)"),
                            ({"ports": {"native": 9101}}, "ports.native: 9101 lies in")):
            self.assertIn(said, self.run_renderer(wrong).stderr)
        own = {"cores": 24, "rdma": {"fabric_ports": "9300-9331"}}
        everything = self.render({"config": own, "ports": {"admin": 9105}})
        env = {one["name"]: one.get("value") for one in self.pod(everything)["spec"]["containers"][0]["env"]}
        self.assertEqual(env["VERBENA_RDMA_FABRIC_PORTS"], "9300-9331")
        self.assertIn(9331, [port["port"] for port in everything["Service", "shop"]["spec"]["ports"]])

    def test_prometheus_names_the_job_as_the_rules_do(self):
        everything = self.render({"serviceMonitor": {"enabled": True}})
        label = everything["ServiceMonitor", "shop"]["spec"]["jobLabel"]
        rules = (ROOT / "deploy/prometheus/verbena.rules.yml").read_text()
        job = re.search(r'up\{job="([a-z]+)"\}', rules)[1]
        self.assertEqual(everything["Service", "shop-pods"]["metadata"]["labels"][label], job)

    def test_files_that_the_configuration_names_are_mounted(self):
        mount = {"name": "tls", "mountPath": "/etc/verbena-tls", "readOnly": True}
        pod = self.pod(self.render({"extraVolumes": [{"name": "tls", "secret": {"secretName": "store-tls"}}], "extraVolumeMounts": [mount]}))
        self.assertIn(mount, pod["spec"]["containers"][0]["volumeMounts"])  # references() finds its volume

    def test_a_daemon_set_keeps_its_data_on_the_node(self):
        everything = self.render({"mode": "DaemonSet", "localSocket": {"enabled": True}})
        self.assertNotIn("StatefulSet", {kind for kind, _ in everything})
        volumes = {v["name"]: v for v in self.pod(everything)["spec"]["volumes"]}
        self.assertEqual(volumes["data"]["hostPath"]["path"], "/var/lib/verbena")
        self.assertEqual(volumes["local-socket"]["hostPath"]["path"], "/run/verbena")
        self.assertEqual(everything["Service", "shop"]["spec"]["internalTrafficPolicy"], "Local")

    def test_an_unknown_mode_is_refused(self):
        done = self.run_renderer({"mode": "Deployment"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Deployment is not StatefulSet or DaemonSet", done.stderr)

    def test_keys_are_made_once(self):
        first = self.render()["Secret", "shop-root"]["data"]
        self.assertRegex(base64.b64decode(first["access-key"]).decode(), r"^VB[A-Z0-9]{18}$")
        self.assertEqual(len(base64.b64decode(first["secret-key"])), 40)
        self.assertNotEqual(first, self.render()["Secret", "shop-root"]["data"])
        upgraded = self.render({"rootKeys": {"accessKey": "other", "secretKey": "other"}}, {"shop-root": first})
        self.assertEqual(upgraded["Secret", "shop-root"]["data"], first)
        own = self.render({"rootKeys": {"existingSecret": "mine"}})
        self.assertFalse([name for kind, name in own if kind == "Secret"])
        secret = next(v for v in self.pod(own)["spec"]["volumes"] if v["name"] == "root-keys")
        self.assertEqual(secret["secret"]["secretName"], "mine")

    def test_the_server_takes_the_environment_and_the_file_that_the_pod_gives_it(self):
        everything = self.render({"serviceMonitor": {"enabled": True}, "localSocket": {"enabled": True},
                                  "config": {"arena_size": "64 MiB", "rdma": {"provider": ["local", "tcp"]}}})
        container = self.pod(everything)["spec"]["containers"][0]
        table = (ROOT / "docs/configuration.md").read_text()
        known = set(re.findall(r"`(VERBENA_[A-Z_]+)`", table)) | {"VERBENA_ROOT_ACCESS_KEY_FILE", "VERBENA_ROOT_SECRET_KEY_FILE"}
        self.assertLessEqual({e["name"] for e in container["env"]}, known)
        text = everything["ConfigMap", "shop"]["data"]["verbena.yaml"]
        done = subprocess.run([program(), "config", "--check", "/dev/stdin"], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        help_text = subprocess.run([program(), container["args"][0], "--help"], capture_output=True, text=True, timeout=60).stdout
        self.assertIn("--config", help_text)

    def test_a_misspelled_field_would_be_found(self):
        service = self.render()["Service", "shop"]
        service["spec"]["selectors"] = service["spec"].pop("selector")
        service["spec"]["ports"][0]["port"] = "9000"
        self.assertEqual(len(findings(service, SHAPES["v1", "Service"], "Service")), 2)


unittest.main(verbosity=2)
