"""Real systems in which processes fail, judged by `sowline check`."""
