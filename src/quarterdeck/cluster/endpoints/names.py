"""Names of Endpoints and EndpointSlices on the wire."""

from __future__ import annotations

from typing import Final

HEADLESS: Final = "service.kubernetes.io/headless"
"""Label of what belongs to a Service without an address."""
TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
"""Annotation: when what led to the last change happened."""
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
ENDPOINTS_MANAGER: Final = "endpoint-controller"
SLICE_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SLICE_MANAGER: Final = "endpointslice-controller.k8s.io"
SERVICE_NAME: Final = "kubernetes.io/service-name"
"""Label of an EndpointSlice: whose it is."""
ZONE: Final = "topology.kubernetes.io/zone"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
"""Annotation of Endpoints that are an election, not addresses."""
MIRROR_MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
"""Label of Endpoints that have their slices from elsewhere."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
