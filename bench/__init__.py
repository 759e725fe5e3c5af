"""Comparisons with the tools one would use without cloudrun. They measure and report; the tests are in tests/."""
