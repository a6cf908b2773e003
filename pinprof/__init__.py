"""pinprof: where host-memory time goes between CPU and GPU."""

__version__ = "0.1.0"
