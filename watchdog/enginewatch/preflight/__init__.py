"""Will this rollout work: files, flags and declarations, judged before a GPU is touched."""
