"""Two kinds of fault: ours (`LocalProtocolError`) and the peer's (`RemoteProtocolError`)."""


class ParleyError(Exception):
    """Anything Parley raises on purpose. Its text is one sentence a person can act on."""


class LocalProtocolError(ParleyError):
    """This program was about to break the protocol, or was asked to."""


class RemoteProtocolError(ParleyError):
    """A peer sent something the protocol does not allow; nothing it sent was used."""


class BadInput(ParleyError):
    """What a person typed or a file held cannot be used (exit code 2)."""


class TranscriptError(ParleyError):
    """A record that is truncated, altered or not a transcript at all."""
