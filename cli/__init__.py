"""The `datacomp-energon` command: arguments, terminal output, our own Prefect server, and the programs without a flow."""
