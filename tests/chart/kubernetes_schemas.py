"""JSON Schemas of Kubernetes' objects, as kubeconform reads them, made from Kubernetes' own OpenAPI document.

The document comes as a file of the Go module `k8s.io/kubernetes`, and what is made of it stays in the user's cache.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sowline.jars import cache_dir

KUBERNETES = "v1.36.3"
KINDS = ("ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet")

Schema = dict[str, Any]


def schema_location() -> str:
    """Return kubeconform's `-schema-location`: where each kind's schema lies, made first if it is not there yet."""
    directory = cache_dir() / "kubernetes-schemas" / KUBERNETES
    if not directory.is_dir():
        _make(directory)
    return f"{directory}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def _make(directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as half:
        schemas = Path(half, "schemas")
        schemas.mkdir()
        for name, schema in schemas_of(_openapi(Path(half, "modules"))["definitions"]):
            (schemas / name).write_text(json.dumps(schema))
        try:
            schemas.rename(directory)
        except OSError:  # another run was first
            assert directory.is_dir()


def _openapi(modules: Path) -> Any:
    """Fetch Kubernetes' sources into `modules`, not into Go's cache: one file of them is read, and once."""
    environment = os.environ | {"GOMODCACHE": str(modules), "GOFLAGS": "-modcacherw"}
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}"]
    answer = subprocess.run(command, env=environment, cwd=modules.parent, check=True, stdout=subprocess.PIPE)
    text = Path(json.loads(answer.stdout)["Dir"], "api", "openapi-spec", "swagger.json").read_text()
    shutil.rmtree(modules)
    return json.loads(text)


def schemas_of(definitions: dict[str, Schema]) -> Iterable[tuple[str, Schema]]:
    """Yield file name and schema of each of our kinds, in every version that there is of it."""
    strict = {name: _strict(schema) for name, schema in definitions.items()}
    # The document calls these strings, but means more.
    strict["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = {"type": ["string", "integer"]}
    strict["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            if kind["kind"] in KINDS:
                yield _file_name(kind), {"$ref": f"#/definitions/{name}", "definitions": strict}


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
    if isinstance(closed.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed
