"""The engine of the fence: a Django app that works without the dashboard."""
