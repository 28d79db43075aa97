"""Suites that other projects wrote, run on spfgen by a command each."""
