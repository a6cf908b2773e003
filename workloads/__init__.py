"""The scenarios, one file each; installed as `pinprof.workloads`. See docs/scenarios.md."""
