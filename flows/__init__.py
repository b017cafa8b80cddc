"""What people trigger: one module a flow, each also a program (``python -m flows.<module>``)."""

from tasks.contracts.certificates import exit_if_unreadable

exit_if_unreadable()
