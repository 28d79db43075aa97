"""The version, for what writes it into files and keys: the package itself names all that is public."""

__version__ = "0.2.0"
