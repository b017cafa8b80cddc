"""Types for texts on a launcher's command line, without characters that are special to a shell, Hydra or Pyxis.

Bridge's launchers join their arguments into a batch script, Hydra has its own grammar for overrides, and Pyxis
separates mounts by commas and colons. A text that these types accept is the same plain word to all of them, and cannot
be read as an option.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

UNSHOWN = "unshown"
"""Type of the validation errors whose input must not be shown: it may be a secret."""

_NAME = r"[+-]{0,2}[A-Za-z_][A-Za-z0-9_.-]*"
_PATH = r"/[A-Za-z0-9_./@+-]*"


def plain_path(path: Path) -> Path:
    """Return ``path``. Raises ValueError if it is not absolute, or holds ``..`` or a special character."""
    if not re.fullmatch(_PATH, str(path)) or ".." in path.parts:
        raise ValueError(
            f"{str(path)!r} cannot stand on a launcher's command line: give an absolute path of letters, digits and "
            "_ . / @ + -, without .. in it"
        )
    return path


def _matches(pattern: str, wanted: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{value!r} is not {wanted}")
        return value

    return check


def _matches_unshown(pattern: str, wanted: str) -> Callable[[str], str]:
    """Return a check like ``_matches`` for texts that may hold a secret by mistake: errors show only the name."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value):
            return value
        raise _unshown(f"{shown(value)} is not {wanted}")

    return check


def shown(text: str) -> str:
    """Return the part of a rejected text that an error may show: the name before its ``=``, else a placeholder."""
    name, equals, _ = text.partition("=")
    return f"{name}=…" if equals and re.fullmatch(_NAME, name) else "what was given (not shown: it may be a secret)"


def _unshown(sentence: str) -> PydanticCustomError:
    return PydanticCustomError(UNSHOWN, "{sentence}", {"sentence": sentence})


def not_about_the_environment(option: str) -> str:
    """Return the srun option. Raises an error if it sets variables: the command would show their values."""
    if re.match("--(export|container-env)(=|$)", option):
        raise _unshown("--export and --container-env are not given here: name variables in env")
    return option


_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,199}"
_HUB_NAME = r"(/|[A-Za-z0-9_])[A-Za-z0-9_./-]*"
_REVISION = r"[0-9a-f]{40}"
_IMAGE = r"(/|[A-Za-z0-9])[A-Za-z0-9_./:@#+-]*"
_MOUNT = rf"{_PATH}(:{_PATH})?"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_SRUN = r"--[A-Za-z0-9][A-Za-z0-9_.,:/@%+=-]*"
_TIME = r"([0-9]+-)?[0-9]{1,3}(:[0-9]{2}){0,2}"
_OVERRIDE = r"\+{0,2}[a-z_][A-Za-z0-9_.]*=[A-Za-z0-9_./@+-]*"


def _shown(pattern: str) -> dict[str, object]:
    """Return the JSON schema of the pattern, for the UI's form and the API."""
    return {"pattern": f"^{pattern}$"}


PlainPath = Annotated[Path, AfterValidator(plain_path)]
Word = Annotated[
    str,
    AfterValidator(_matches(_WORD, "a plain word of letters, digits and _ . @ + -, first a letter, digit or _")),
    Field(json_schema_extra=_shown(_WORD)),
]
HubName = Annotated[
    str,
    AfterValidator(_matches(_HUB_NAME, "the name of a model on the hub (owner/name), or an absolute path")),
    Field(json_schema_extra=_shown(_HUB_NAME)),
]
Revision = Annotated[
    str,
    AfterValidator(_matches(_REVISION, "a commit of 40 hex digits; names of branches move")),
    Field(json_schema_extra=_shown(_REVISION)),
]
Image = Annotated[
    str,
    AfterValidator(_matches(_IMAGE, "an image: the absolute path of a file, or a name in a registry")),
    Field(json_schema_extra=_shown(_IMAGE)),
]
MountText = Annotated[
    str,
    AfterValidator(_matches(_MOUNT, "a mount: HOST or HOST:CONTAINER, absolute paths without special characters")),
    Field(json_schema_extra=_shown(_MOUNT)),
]
VariableName = Annotated[
    str,
    AfterValidator(_matches_unshown(_VARIABLE, "the name of an environment variable; values are never given here")),
    Field(json_schema_extra=_shown(_VARIABLE)),
]
SrunOption = Annotated[
    str,
    AfterValidator(_matches_unshown(_SRUN, "an option of srun, as --mpi=pmix")),
    AfterValidator(not_about_the_environment),
    Field(json_schema_extra=_shown(_SRUN)),
]
TimeLimit = Annotated[
    str,
    AfterValidator(_matches(_TIME, "a time limit of Slurm, as 04:00:00 or 1-12:00:00")),
    Field(json_schema_extra=_shown(_TIME)),
]
Override = Annotated[
    str,
    AfterValidator(_matches_unshown(_OVERRIDE, "an override KEY=VALUE with a plain value")),
    Field(json_schema_extra=_shown(_OVERRIDE)),
]
