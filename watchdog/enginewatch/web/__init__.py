"""HTTP: the Prometheus-compatible query API, health, reload, and the daemon's own metrics."""
