"""Wireshark display filters for NFS: the right ones by question, and a linter."""
