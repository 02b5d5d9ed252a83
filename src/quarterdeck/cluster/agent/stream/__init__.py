"""Streams into containers as kubectl and the Python clients speak them. See docs/adr/0033-streams.md.

websocket    messages of RFC 6455 over a connection that has been upgraded
spdy         SPDY/3.1, plain or inside a WebSocket
remote       input, output and status of a command, whichever of both carries them
command      exec and attach
forward      port-forward
"""
