"""The package structure: which package may import which, and no cycles (docs/architecture.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

LAYERS = {"contracts": 0, "io": 1, "downloader_startup": 1, "slurm": 2, "running": 3}
ROOM, FLOWS, CLI = 4, 5, 6
SOURCE = ("cli", "demo", "deployments", "flows", "tasks")
ORCHESTRATION = {"prefect", "prefect_dask", "dask", "distributed", "dask_jobqueue"}
HEAVY = ORCHESTRATION | {"torch", "pyarrow", "megatron", "numpy"}


def modules() -> dict[str, Path]:
    paths = [path for folder in SOURCE for path in (ROOT / folder).rglob("*.py")]
    return {_name(path): path for path in paths}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Return every module that a module imports, except in its program part (``if __name__ == "__main__"``)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not _is_main_guard(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in full)


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.dump(node.test)


def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: set(imports(path, known)) for name, path in known.items()}


def layer(module: str) -> int:
    top, _, rest = module.partition(".")
    if top == "tasks":
        return LAYERS.get(rest.partition(".")[0], ROOM) if rest else -1
    return {"cli": CLI, "flows": FLOWS}.get(top, ROOM)


def room(module: str) -> str:
    """Return the room, or the package of the rooms' layer, that a module belongs to."""
    parts = module.split(".")
    return parts[0] if parts[0] != "tasks" else ".".join(parts[:2])


def is_ours(module: str) -> bool:
    return module.partition(".")[0] in SOURCE


def test_imports_point_downwards():
    upward = [
        f"{module} imports {imported}"
        for module, imported_modules in graph().items()
        for imported in imported_modules
        if is_ours(imported) and layer(imported) > layer(module)
    ]
    assert upward == []


def test_rooms_do_not_import_each_other():
    across = [
        f"{module} imports {imported}"
        for module, imported_modules in graph().items()
        for imported in imported_modules
        if layer(module) == ROOM == layer(imported) and is_ours(imported) and room(module) != room(imported)
    ]
    assert across == []


def test_the_demo_is_imported_by_the_quickstart_and_the_command_line_alone():
    users = {module for module, imported in graph().items() if any(room(name) == "demo" for name in imported)}
    assert {user for user in users if not user.startswith(("demo", "cli"))} == {"flows.quickstart"}


@pytest.mark.parametrize(
    ("package", "unwanted"),
    [("tasks.contracts", HEAVY), ("tasks.io", ORCHESTRATION), ("tasks.slurm", HEAVY)],
)
def test_packages_import_only_what_they_may(package, unwanted):
    found = {
        f"{module} imports {imported}"
        for module, imported_modules in graph().items()
        for imported in imported_modules
        if module.startswith(package) and imported.partition(".")[0] in unwanted
    }
    assert found == set()


def test_only_the_tasks_of_a_room_know_prefect():
    found = {
        f"{module} imports {imported}"
        for module, imported_modules in graph().items()
        for imported in imported_modules
        if module.startswith("tasks.") and layer(module) == ROOM and not module.endswith(".task")
        if imported.partition(".")[0] in ORCHESTRATION
    }
    assert found == set()


def test_no_module_imports_itself_in_a_circle():
    edges = {module: {name for name in imported if name in modules()} for module, imported in graph().items()}
    while leaves := {module for module, imported in edges.items() if not imported}:
        edges = {module: imported - leaves for module, imported in edges.items() if module not in leaves}
    roots = edges
    while roots:
        imported_by_some = set().union(*roots.values())
        left = {module: imported for module, imported in roots.items() if module in imported_by_some}
        if len(left) == len(roots):
            break
        roots = left
    assert sorted(roots) == []


def test_no_import_is_for_the_type_checker_alone():
    users = [name for name, path in modules().items() if "TYPE_CHECKING" in path.read_text(encoding="utf-8")]
    assert users == []
