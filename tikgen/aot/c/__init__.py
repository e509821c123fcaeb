"""The C header, the C++ wrapper and the CMake package of a bundle."""
