"""The devices of this machine, and what is known of them."""
