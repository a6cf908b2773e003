"""The reports: Analysis → ReportData (`gather`) → page, terminal summary, JSON; Capture → folded stacks (`export`)."""
