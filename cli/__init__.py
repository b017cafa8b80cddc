"""The `datacomp-energon` command: arguments, terminal output, our own Prefect server, programs without a flow."""
