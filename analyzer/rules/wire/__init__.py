"""Rules over what a capture showed."""
