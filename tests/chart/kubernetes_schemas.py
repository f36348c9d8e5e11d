"""JSON Schemas of Kubernetes' objects, as kubeconform reads them, made from Kubernetes' own OpenAPI document.

Those of other operators' objects are made from their own definitions of them. All of these documents come as files of
Go modules, and what is made of them stays in the user's cache.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from sowline.runtime.jars import cache_directory

OLDEST, NEWEST = "v1.25.16", "v1.36.3"
VERSIONS = (OLDEST, "v1.31.14", NEWEST)
"""The oldest release that the chart accepts, the newest, and one between them."""
KINDS = (
    "ConfigMap",
    "Deployment",
    "HorizontalPodAutoscaler",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
    "StatefulSet",
)
OPENAPI = ("k8s.io/kubernetes", "api/openapi-spec/swagger.json")
CUSTOM = (
    (
        "github.com/kubeflow/spark-operator/v2",
        "v2.5.1",
        "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",
    ),
    (
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    (
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
)

Schema = dict[str, Any]


def schema_locations(version: str) -> tuple[str, str]:
    """Return kubeconform's `-schema-location`s for a version of Kubernetes: where each kind's schema lies.

    What is not there yet is made first.
    """
    builtin = _directory(version, (OPENAPI, KINDS), lambda modules: _builtin(modules, version))
    custom = _directory("custom", CUSTOM, _custom)
    name = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
    return f"{builtin}/{name}", f"{custom}/{name}"


def _directory(name: str, source: object, schemas: Callable[[Path], Iterable[tuple[str, Schema]]]) -> Path:
    """Return a directory of schemas, made by `schemas` in an earlier run or this one."""
    source_hash = hashlib.sha256(repr(source).encode()).hexdigest()[:12]
    directory = cache_directory() / "kubernetes-schemas" / f"{name}-{source_hash}"
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as half:
        made = Path(half, "schemas")
        made.mkdir()
        for file, schema in schemas(Path(half, "modules")):
            (made / file).write_text(json.dumps(schema))
        try:
            made.rename(directory)
        except OSError:  # another run was first
            assert directory.is_dir()
    return directory


def _builtin(modules: Path, version: str) -> Iterable[tuple[str, Schema]]:
    module, path = OPENAPI
    return schemas_of(json.loads(_file_of_module(modules, module, version, path))["definitions"])


def _custom(modules: Path) -> Iterable[tuple[str, Schema]]:
    for document in CUSTOM:
        yield from schemas_of_custom(yaml.safe_load(_file_of_module(modules, *document)))


def _file_of_module(modules: Path, module: str, version: str, path: str) -> str:
    """Fetch a module into `modules`, not into Go's cache: one file of it is read, and once."""
    environment = os.environ | {"GOMODCACHE": str(modules), "GOFLAGS": "-modcacherw"}
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    answer = subprocess.run(command, env=environment, cwd=modules.parent, check=True, stdout=subprocess.PIPE)
    text = Path(json.loads(answer.stdout)["Dir"], path).read_text()
    shutil.rmtree(modules)
    return text


def schemas_of(definitions: dict[str, Schema]) -> Iterable[tuple[str, Schema]]:
    """Yield file name and schema of each of our kinds, in every version that there is of it."""
    strict = {name: _strict(schema) for name, schema in definitions.items()}
    # The document calls these strings, but means more.
    strict["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = {"type": ["string", "integer"]}
    strict["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            if kind["kind"] in KINDS:
                needed = {needed: strict[needed] for needed in _needed(name, strict)}
                yield _file_name(kind), {"$ref": f"#/definitions/{name}", "definitions": needed}


def _needed(name: str, definitions: dict[str, Schema]) -> set[str]:
    """Return the names of what a definition refers to, itself among them: with all, kubeconform is slow."""
    found: set[str] = set()
    todo = {name}
    while todo:
        found |= todo
        text = json.dumps([definitions[name] for name in todo])
        todo = set(re.findall(r'"\$ref": "#/definitions/([^"]+)"', text)) - found
    return found


def schemas_of_custom(definition: Schema) -> Iterable[tuple[str, Schema]]:
    """Yield file name and schema of each version of what a CustomResourceDefinition defines."""
    spec = definition["spec"]
    for version in spec["versions"]:
        kind = {"kind": spec["names"]["kind"], "group": spec["group"], "version": version["name"]}
        yield _file_name(kind), _strict(version["schema"]["openAPIV3Schema"])


def _file_name(kind: dict[str, str]) -> str:
    """Return kubeconform's name for a kind: `deployment-apps-v1.json`, and `service-v1.json` in the core group."""
    group = kind["group"].split(".")[0]
    return "-".join(part for part in (kind["kind"].lower(), group, kind["version"]) if part) + ".json"


def _strict(schema: Any) -> Any:
    """Return `schema` so that it allows no field that it does not name."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _strict(value) for key, value in schema.items()}
    if isinstance(closed.get("properties"), dict) and not closed.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed
