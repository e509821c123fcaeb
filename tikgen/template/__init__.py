"""What a kernel family declares, and where templates are found."""
