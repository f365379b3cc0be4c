"""The settings of tests: the real ones, pointed at throw-away servers."""

from tests.throwaway import throw_away

throw_away().announce()

from fencing.settings import *  # noqa: E402, F403 (they read the environment that was just filled)

# The real hasher costs a tenth of a second for each user that a test makes.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
