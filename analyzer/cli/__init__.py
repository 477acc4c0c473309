"""The command line: parses arguments, calls the pipeline, turns the outcome into an exit code. No logic."""

from analyzer.cli.app import app, load_commands, main

load_commands()

__all__ = ["app", "main"]
