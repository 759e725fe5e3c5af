"""The part of cloudrun that lives on the box: Python 3.8 or newer, standard library only."""
