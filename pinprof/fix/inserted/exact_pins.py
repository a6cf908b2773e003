"""What `pinprof fix` inserts so that PyTorch does not round large pinned blocks up to a power of two.

The same as the cure `torch-exact-pins` of `pinprof try`. A variable that is set already stays as it is.
"""

# fmt: off
# ---- inserted above
import os as _os

_os.environ.setdefault(  # how PyTorch pins memory (pinprof fix)
    "PYTORCH_ALLOC_CONF", "pinned_max_round_threshold_mb:64"
)
