"""Records as a table in Arrow's format: its columns, their types, and its batches."""
