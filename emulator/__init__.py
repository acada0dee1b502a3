"""Messages, rounds, transcripts and roles. Knows no protocol, no clock and (but for transport.py) no socket."""
