"""The reports: Run → ReportData (`gather`) → page, terminal summary, JSON; Capture → folded stacks (`export`)."""
