"""The documentation, the settings of its site, and what makes its drawings, protocol description and tables."""
