"""Template tags of the components."""
