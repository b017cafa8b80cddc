"""Moved: ``datacomp-energon status``."""

if __name__ == "__main__":
    from cli.main import name_replacement

    name_replacement("status")
