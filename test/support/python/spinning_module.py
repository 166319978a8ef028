"""Its import computes until it is interrupted."""

import interrupted

interrupted.spin("import")
