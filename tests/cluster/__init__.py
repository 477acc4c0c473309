"""A real Kubernetes control plane for tests: etcd and kube-apiserver, without nodes."""
