"""One prepared data root for all tests of the report."""

from pathlib import Path

import pytest

from tasks.contracts.layout import DataRoot
from tasks.report.catalogue import Catalogue, read_catalogue
from tasks.report.places import places_in_root
from tests.tasks.report.dataset import prepared_root


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataRoot:
    """A prepared data root that tests do not change."""
    return prepared_root(tmp_path_factory.mktemp("report") / "root")


@pytest.fixture(scope="session")
def catalogue(data: DataRoot) -> Catalogue:
    """Catalogue of the prepared data root."""
    return read_catalogue(places_in_root(data, "energon"))


@pytest.fixture(scope="session")
def report(data: DataRoot) -> Path:
    """Report of the prepared data root."""
    from tasks.contracts.settings import ReportSettings
    from tasks.report.report import write_report

    path = data.report("energon")
    write_report(places_in_root(data, "energon"), path, ReportSettings())
    return path
