"""The contract of a protocol: what it owes its users, by enumeration where that is possible."""
