"""`python -m analyzer` is the same as the console command `storage-analyzer`."""

from analyzer.cli import main

if __name__ == "__main__":
    main()
