"""Write the table of fields of Bridge's configuration classes, parsed from their source without importing it.

Run it with a checkout of Megatron-Bridge and one of the Megatron-LM that it pins:
``python -m tests.tasks.megatron.bridge_fields BRIDGE MEGATRON_LM > tests/tasks/megatron/bridge-fields.json``
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_CONFIG, _QWEN = "megatron.bridge.training.config", "megatron.bridge.models.qwen_vl"
_ENERGON = "megatron.bridge.data.builders.energon"
CLASSES = {
    "train": ((_CONFIG, "TrainingConfig"),),
    "validation": ((_CONFIG, "ValidationConfig"),),
    "checkpoint": ((_CONFIG, "CheckpointConfig"),),
    "logger": ((_CONFIG, "LoggerConfig"),),
    "model": (
        (f"{_QWEN}.qwen35_vl_provider", "Qwen35VLMoEModelProvider"),
        (f"{_QWEN}.qwen3_vl_provider", "Qwen3VLModelProvider"),
    ),
    "dataset": ((_ENERGON, "EnergonDatasetConfig"),),
    "dataset.task_encoder": (
        (_ENERGON, "HFEnergonTaskEncoderConfig"),
        (_ENERGON, "QwenVLEnergonTaskEncoderConfig"),
    ),
}
"""Sections of the configuration that overrides name, and the classes that they configure."""


class Source:
    """The classes of both checkouts, by module and name."""

    def __init__(self, *packages: Path) -> None:
        """Parse the modules under ``packages``, each of them a folder on the import path."""
        self._trees: dict[str, ast.Module] = {}
        for package in packages:
            for path in sorted(package.glob("megatron/**/*.py")):
                module = ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
                self._trees[module] = ast.parse(path.read_text(encoding="utf-8"))

    def fields_of(self, module: str, name: str) -> list[str]:
        """Return the sorted fields of a class, including its bases. Raises LookupError if it has none."""
        fields = sorted(set(self._fields(module, name)))
        if not fields:
            raise LookupError(f"{module} defines and imports no dataclass {name}")
        return fields

    def _fields(self, module: str, name: str) -> Iterator[str]:
        node = self._class(module, name)
        if node is None:
            origin = self._imported(module, name)
            if origin is not None:
                yield from self._fields(*origin)
            return
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield statement.target.id
        for base in node.bases:
            if isinstance(base, ast.Name):
                yield from self._fields(module, base.id)

    def _class(self, module: str, name: str) -> ast.ClassDef | None:
        tree = self._trees.get(module)
        body = tree.body if tree else []
        return next((node for node in body if isinstance(node, ast.ClassDef) and node.name == name), None)

    def _imported(self, module: str, name: str) -> tuple[str, str] | None:
        tree = self._trees.get(module)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        package = module.split(".")[: -node.level] if node.level else []
                        return ".".join([*package, node.module or ""]), alias.name
        return None


def table_of(bridge: Path, megatron: Path) -> dict[str, object]:
    """Return the parsed commits, and the fields of every class, by section."""
    source = Source(bridge / "src", megatron)
    sections = {
        section: {name: source.fields_of(module, name) for module, name in classes}
        for section, classes in CLASSES.items()
    }
    return {"bridge": _commit(bridge), "megatron_lm": _commit(megatron), "sections": sections}


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(table_of(Path(sys.argv[1]), Path(sys.argv[2])), indent=1) + "\n")
