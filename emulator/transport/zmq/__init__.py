"""Ports over ZeroMQ, between processes and hosts. The only folder that imports zmq.

Each port owns a context, made when the port is opened (so after a fork) and gone when it is closed. Readiness is
awaited once, then frames are moved without blocking: an await per message would cost twenty times as much.
"""
