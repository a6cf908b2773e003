"""Linux perf's recordings, and those of the native collector: perf.data and the text of `perf script`."""
