"""Fetch the images of a metadata slice with img2dataset, in an environment of its own."""
