"""`python -m cloudrun` does what the `cloudrun` command does."""

from cloudrun.cli.main import main

if __name__ == "__main__":
    main()
