"""The parts of the oracle (lang/interpret.py)."""
