"""Report stage: what happened to every URL and sample, as a page of plots and as a sample viewer."""
