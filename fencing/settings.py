"""Django's settings, every one of them out of the environment.

Nothing here starts, writes or connects. `fencing.machine` fills the environment of the embedded system;
elsewhere an operator does (`deploy/`). The names are listed in `fencing/environment.py`.
"""

import secrets
from datetime import timedelta
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from fencing.environment import Mode, database, read_environment
from fencing.logs import logging_settings
from fencing.protocol.addresses import networks_of

ENVIRONMENT = read_environment()
TOP = Path(__file__).resolve().parent.parent

FENCE_DATA = ENVIRONMENT.data
FENCE_MODE = ENVIRONMENT.mode
FENCE_ROLE = ENVIRONMENT.role
FENCE_SILENCE_S = ENVIRONMENT.silence_s
FENCE_HEADS = ENVIRONMENT.heads
FENCE_WITNESSES = ENVIRONMENT.witnesses
FENCE_FRAGMENT_LEASE_S = ENVIRONMENT.fragment_lease_s
FENCE_PRICES = ENVIRONMENT.prices
FENCE_TOOL_HOSTS = frozenset(ENVIRONMENT.tool_hosts)
FENCE_CREDENTIALS = ENVIRONMENT.credentials
FENCE_PUBLIC_URL = ENVIRONMENT.public_url
FENCE_NOTIFY_NETWORKS = networks_of(ENVIRONMENT.notify_networks) if not ENVIRONMENT.faults else ()
FENCE_PROVIDER = ENVIRONMENT.provider
FENCE_SESSION_IDLE_S = ENVIRONMENT.session_idle_s
FENCE_SESSION_MAX_S = ENVIRONMENT.session_max_s
REDIS_URL = ENVIRONMENT.redis_url

if ENVIRONMENT.faults:
    raise ImproperlyConfigured("; ".join(ENVIRONMENT.faults))

DEBUG = ENVIRONMENT.debug
# Without a given key (static checks, a lone command) sessions live as long as the process does.
SECRET_KEY = ENVIRONMENT.secret_key or secrets.token_urlsafe(48)
SECRET_KEY_FALLBACKS = list(ENVIRONMENT.old_secret_keys)
ALLOWED_HOSTS = list(ENVIRONMENT.hosts)
CSRF_TRUSTED_ORIGINS = list(ENVIRONMENT.trusted_origins)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "ninja",
    "pgtrigger",
    "django_rq",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.usersessions",
    "axes",
    "fencing",
    "dashboard",
]
MIDDLEWARE = [
    # Answers machines by itself, so that no session, cookie or form check costs a vote anything.
    "fencing.api.middleware.ApiMiddleware",
    "dashboard.middleware.PageHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # For the phone at three in the morning. Behind WhiteNoise, whose files are compressed once and for all.
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "dashboard.door.sessions.SessionLimitsMiddleware",
    "dashboard.middleware.PeopleMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "fencing.urls"
ASGI_APPLICATION = "fencing.asgi.application"
WSGI_APPLICATION = "fencing.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [TOP / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": database(ENVIRONMENT)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# A wake-up that is lost costs a second (the sweep finds the work), so a failed job is kept only as long as a
# person may want to look at it; RQ's default of a year would also block a job id for a year.
RQ_QUEUES = {
    name: {
        "URL": REDIS_URL,
        "DEFAULT_TIMEOUT": 60,
        "DEFAULT_RESULT_TTL": 0,
        # Pickle would let whoever writes to Redis run code in a worker.
        "SERIALIZER": "rq.serializers.JSONSerializer",
    }
    for name in ("fence", "deliver", "default", "notify")
}
RQ = {"COMMIT_MODE": "on_db_commit", "DEFAULT_RESULT_TTL": 0}
RQ_SHOW_ADMIN_LINK = False

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "dashboard:overview"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
# A link that sets a first password, given by an administrator from hand to hand.
PASSWORD_RESET_TIMEOUT = 24 * 3600
CSRF_FAILURE_VIEW = "dashboard.views.form_expired"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# Names and passwords alone: nobody signs up, and no flow needs a mail.
ACCOUNT_ADAPTER = "dashboard.door.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_FORMS = {"login": "dashboard.door.forms.SignInForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_SESSION_REMEMBER = True
# Guesses are counted by `dashboard.door.guessing`, exactly and in the database; these would count them once more.
ACCOUNT_RATE_LIMITS = False
MFA_ADAPTER = "dashboard.door.adapters.SecondFactorAdapter"
MFA_FORMS = {
    "authenticate": "dashboard.door.forms.CodeForm",
    "activate_totp": "dashboard.door.forms.ActivateCodeForm",
    "add_webauthn": "dashboard.door.forms.AddPasskeyForm",
    "authenticate_webauthn": "dashboard.door.forms.PasskeyForm",
    "login_webauthn": "dashboard.door.forms.PasskeySignInForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "Fence"
# The code before and the one after too: people type, and phones go a little wrong.
MFA_TOTP_TOLERANCE = 1
MFA_RATE_LIMITS = False
# On one machine pages come over HTTP, which browsers trust from the machine itself alone.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = FENCE_MODE is Mode.LOCAL
SOCIALACCOUNT_ADAPTER = "dashboard.door.provider.ProviderAdapter"
SOCIALACCOUNT_STORE_TOKENS = False

AXES_HANDLER = "dashboard.door.guessing.Guesses"
AXES_CLIENT_IP_CALLABLE = "dashboard.door.guessing.place_of"
AXES_USERNAME_CALLABLE = "dashboard.door.guessing.name_of"
AXES_LOCKOUT_CALLABLE = "dashboard.door.views.locked_out"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "username", "ip_address"]
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

# What must be known to all web processes, and still be there when Valkey is not: codes that were used, say.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "django_cache",
        "TIMEOUT": 600,
        # Beyond it Django removes whatever comes first, and a code that was used could be used again.
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "static/"
STATIC_ROOT = FENCE_DATA / "static"
STATICFILES_DIRS = [TOP / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "dashboard.staticfiles.PlotlyFinder",
]
# One machine serves files straight out of the packages that ship them; many machines collect them once.
WHITENOISE_USE_FINDERS = FENCE_MODE is Mode.LOCAL
WHITENOISE_ALLOW_ALL_ORIGINS = False
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "django.contrib.staticfiles.storage.StaticFilesStorage"
            if FENCE_MODE is Mode.LOCAL
            else "whitenoise.storage.CompressedManifestStaticFilesStorage"
        ),
    },
}

SESSION_COOKIE_AGE = FENCE_SESSION_MAX_S
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = FENCE_MODE is Mode.PRODUCTION
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENVIRONMENT.behind_proxy else None
X_FRAME_OPTIONS = "DENY"

LOGGING_CONFIG = "fencing.logs.configure"
LOGGING = logging_settings(as_json=ENVIRONMENT.json_logs)
