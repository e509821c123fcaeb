"""The functions of C between a kernel of direct-cpu and what runs its parallel loops."""

import ctypes

# A task takes the context, the number of the thread and that of the split.
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
# A loop takes the pool, how many splits and threads there are, the context and the task.
FOR = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p
)
