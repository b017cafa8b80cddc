"""The README and the docs, as the tests read them."""

import re

from tests.conftest import ROOT

PATHS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """Every command in a ``bash`` block, continued lines joined, comments cut off, in the documents' order."""
    found = []
    for path in PATHS:
        for block in re.findall(r"```bash\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [" ".join(line.split("  #")[0].split()) for line in lines if line.strip()]
    return list(dict.fromkeys(found))


def links() -> list[tuple[str, str]]:
    """Every relative link: (document, target)."""
    return [
        (str(path.relative_to(ROOT)), target)
        for path in PATHS
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8"))
    ]


def symptoms() -> list[str]:
    """The messages in the runbook's table of symptoms."""
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
