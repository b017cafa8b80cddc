"""The stages of the pipeline, one room each, and the few modules that the rooms share."""
