"""What pods store and read: volumes, claims and classes, devices, ConfigMaps, Secrets."""
