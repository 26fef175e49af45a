"""Where samples wait to be judged: the embedded head, and the contract the evaluator reads by."""
