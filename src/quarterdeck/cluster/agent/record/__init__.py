"""What is known of pods, for all who look: their folders on disk, their logs, and the values made of both."""
