"""Services, endpoints and the kinds of networking.k8s.io."""
