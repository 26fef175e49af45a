"""The quality canary: golden tasks, exact scores, and sequential tests against a trusted baseline.

Pure: who asks the engines is in `enginewatch.collect`, what is too much is in `rules/`.
"""
