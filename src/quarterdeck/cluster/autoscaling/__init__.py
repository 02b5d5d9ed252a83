"""HorizontalPodAutoscalers: as many pods as the load asks for.

``measure`` reads metrics, ``calculation`` says how many pods they ask for, ``behavior`` how fast the number
may change, the latter two without I/O; ``metricreader`` joins them, ``controller`` scales.
"""
