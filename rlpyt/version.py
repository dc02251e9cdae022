"""Version and repository, for those who may see the package without its ``__init__``.

A script beside a folder named ``rlpyt`` that holds a clone gets that folder as the top of the
package, as Python does with folders without ``__init__.py``; modules are found all the same.
"""

VERSION = "1.0.0.dev0"
REPOSITORY = "https://github.com/rlpyt/rlpyt"
