"""Speed and memory, measured beside the peers in the same run: `make bench`."""
