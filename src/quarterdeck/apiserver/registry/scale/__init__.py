"""The scale subresource: a view of an object that shows and changes its replicas."""
