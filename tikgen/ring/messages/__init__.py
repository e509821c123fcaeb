"""Messages: typed, checked, written as MessagePack, and laid out as columns."""
