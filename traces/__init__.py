"""What real systems did: trace formats, and replay against the protocol."""
