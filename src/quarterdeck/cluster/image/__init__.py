"""Images on this machine: imported from files, verified, unpacked. Nothing is pulled.

name       what images are called
document   the JSON of images: manifests, indexes, configurations
archive    OCI layouts and ``docker save`` archives, as folders or tar files
layer      one layer onto a root folder, safely
store      what has been imported; ``store.default_store`` is the user's
"""
