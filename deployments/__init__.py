"""How flows reach machines: cluster profiles, task runners, work pools."""
