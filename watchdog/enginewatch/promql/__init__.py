"""PromQL as Prometheus 3 means it, for float samples: own parser, vectorised evaluator."""
