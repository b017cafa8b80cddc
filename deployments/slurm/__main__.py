"""Moved to ``datacomp-energon pool`` and ``datacomp-energon render``."""

if __name__ == "__main__":
    from cli.main import name_replacement

    name_replacement("pool` or `datacomp-energon render")
