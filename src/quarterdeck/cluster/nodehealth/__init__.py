"""What becomes of nodes that are not well, and of their pods.

nodeview    what is read of a node and of its lease
health      when a node was last heard of: pure
taint       the taints that conditions bring: pure
zone        how many nodes of a zone may lose their pods, and how fast: pure
controller  the node lifecycle controller
eviction    pods leave nodes whose taints they do not tolerate
ttl         how long kubelets may keep Secrets and ConfigMaps, by the size of the cluster
"""
