"""Clusters that run on this machine: started in the background, announced, found, stopped."""
