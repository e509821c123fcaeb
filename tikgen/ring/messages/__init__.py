"""Messages: typed, checked, serialized as MessagePack, converted to columns."""
