"""The viewer can show the dataset that its benchmark makes."""

from benchmarks.viewer import make_dataset
from tasks.report.catalogue import read_catalogue
from tasks.report.places import places_of_dataset
from tasks.report.search import Finder, Query


def test_the_viewers_benchmark_measures_a_real_catalogue(tmp_path):
    catalogue = read_catalogue(places_of_dataset(make_dataset(tmp_path, shards=3, samples=10)))
    assert len(catalogue.emitted) == 30
    assert list(Finder(catalogue).find(Query(text="number 4 of shard 2"))) == [24]
