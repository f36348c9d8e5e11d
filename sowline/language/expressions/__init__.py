"""The uses of the filter language other than filters: sort orders, projections, enrichment. Pure."""
