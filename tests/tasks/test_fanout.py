"""Data that is sent with every task run."""

from prefect.context import SettingsContext, get_settings_context
from prefect.settings import PREFECT_API_KEY, temporary_settings

from tasks.running.fanout import SettingsOnce


def test_settings_that_go_along_are_prefects_own_and_are_made_once():
    with temporary_settings({PREFECT_API_KEY: "secret of the tests"}):
        current = get_settings_context()
        once = SettingsOnce(profile=current.profile, settings=current.settings)
        sent = once.serialize()
        assert sent == current.serialize() and once.serialize() is sent
        assert SettingsContext(**sent).settings.api.key.get_secret_value() == "secret of the tests"
        assert once.serialize(include_secrets=False) == current.serialize(include_secrets=False) != sent
        with once:
            assert get_settings_context() is once
        with once:
            assert get_settings_context() is once
