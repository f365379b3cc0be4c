"""How the property tests of the pure core run."""

from hypothesis import HealthCheck, settings

# Time is no verdict here: these tests share a machine with servers, browsers and each other.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")
