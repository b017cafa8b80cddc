"""Stage report: what became of every URL and sample, for people to look at: a page of plots, and a viewer."""
