"""cloudrun: launch a training on a rented GPU box, close the lid, and find it running."""

__version__ = "0.1.0"
