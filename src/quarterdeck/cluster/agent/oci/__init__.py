"""The runtime ``oci``: containers by ``crun`` or ``runc``, from imported images, with networks of their own.

runtime      what makes a pod's network and a container's bundle
spec         ``config.json`` of a container. Pure
identity     who a container runs as, by its image's files. Pure
capability   which capabilities it has. Pure
seccomp      which system calls it may not make. Pure
"""
