"""``python -m rlpyt COMMAND``: the command line, also where ``rlpyt`` is not on PATH."""

from rlpyt.cli.main import main

if __name__ == "__main__":
    main()
