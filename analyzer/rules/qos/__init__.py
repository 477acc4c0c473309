"""Rules about how fairly storage is shared among those who use it."""
