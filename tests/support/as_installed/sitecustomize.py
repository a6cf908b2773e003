"""Makes an interpreter find packages in PYTHONPATH as their own does: by their `.pth` files, too."""

import os
import site

for _folder in os.environ["PYTHONPATH"].split(os.pathsep)[1:]:
    site.addsitedir(_folder)
