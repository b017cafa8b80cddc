"""Parse the README and the docs for tests."""

import re
import shlex

from tests.conftest import ROOT

PATHS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """Return every command of the ``bash`` blocks, in order; continued lines are joined, comments removed."""
    found = []
    for path in PATHS:
        for block in re.findall(r"```bash\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [" ".join(line.split("  #")[0].split()) for line in lines if line.strip()]
    return list(dict.fromkeys(found))


def flow_and_arguments(command: str) -> tuple[str, list[str]]:
    """Split a command of a flow (subcommand or module) into the flow's name and its arguments."""
    _, *words = shlex.split(command)
    if words[0] == "-m":
        words = [words[1].removeprefix("flows."), *words[2:]]
    return words[0], words[1:]


def links() -> list[tuple[str, str]]:
    """Return every relative link: (document, target)."""
    return [
        (str(path.relative_to(ROOT)), target)
        for path in PATHS
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    ]


def anchors() -> list[tuple[str, str, str]]:
    """Return every link to a heading: (document, target document, anchor)."""
    return [
        (str(path.relative_to(ROOT)), target or path.name, anchor)
        for path in PATHS
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8"))
    ]


def headings(document: str) -> set[str]:
    """Return the anchors of a document's headings, as Git hosts make them."""
    titles = re.findall(r"^#+ (.+)$", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def symptoms() -> list[str]:
    """Return the messages in the runbook's table of symptoms."""
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
