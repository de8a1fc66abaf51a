"""`python -m srifty`: how `torchrun -m srifty probe` starts the command line."""

from srifty.cli.start import main

if __name__ == "__main__":
    main()
