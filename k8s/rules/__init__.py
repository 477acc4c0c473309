"""One file per rule about Kubernetes objects."""
