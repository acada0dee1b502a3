"""Ports: in memory and over ZeroMQ, with faults injected above the socket."""
