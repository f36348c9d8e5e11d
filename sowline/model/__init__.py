"""The data model: keys, paths, JSON bodies, merging, positions and bookmarks. Pure."""
