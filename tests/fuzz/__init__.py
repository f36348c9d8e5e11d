"""The native core beside Python, on odd inputs by the million."""
