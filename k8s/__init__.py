"""Kubernetes inspector (not built yet)."""
