"""The demonstration, and a kernel that is taken through the pipeline stage by stage."""
