"""The server under test, apart from load: checks beforehand, its metrics, its models, its cache.

Others import these names, and nothing else of the room.
"""

from core.server.cache import CacheReset, reset_prefix_cache
from core.server.checks import at_rest, others_between, others_now
from core.server.host_metrics import MachineScraper
from core.server.http import Caller, Credential
from core.server.metrics import SCRAPE_INTERVAL_S, ScrapeError, Scraper, pace_s
from core.server.models import NoModels, list_models
from core.server.preflight import AGAIN_S, Preflight, SendSingles
from core.server.probe import ServerGlance, look, place

__all__ = [
    "AGAIN_S",
    "SCRAPE_INTERVAL_S",
    "CacheReset",
    "Caller",
    "Credential",
    "MachineScraper",
    "NoModels",
    "Preflight",
    "ScrapeError",
    "Scraper",
    "SendSingles",
    "ServerGlance",
    "at_rest",
    "list_models",
    "look",
    "others_between",
    "others_now",
    "pace_s",
    "place",
    "reset_prefix_cache",
]
