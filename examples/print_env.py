#!/usr/bin/env python3
"""Prints the run contract's variables of its rank: one line, so that ranks' lines do not mix."""

import argparse
import os

NAMES = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--greeting", default="hello")
    arguments = parser.parse_args()
    words = [f"{name}={os.environ.get(name, '(not set)')}" for name in NAMES]
    print(f"{arguments.greeting} from {os.environ.get('GREETING_FROM', 'nobody')}: {' '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
