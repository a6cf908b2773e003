"""What `pinprof fix` inserts so that PyTorch touches pinned memory with several threads before it registers it.

The same as the cure `torch-register-pins` of `pinprof try`. A variable that is set already stays as it is.
"""

# fmt: off
# ---- inserted above
import os as _os

_os.environ.setdefault(  # how PyTorch pins memory (pinprof fix)
    "PYTORCH_CUDA_ALLOC_CONF", "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"
)
