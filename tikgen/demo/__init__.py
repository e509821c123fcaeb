"""The demonstration, and a kernel that is taken through the pipeline stepwise."""
