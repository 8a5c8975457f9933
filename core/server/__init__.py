"""The server under test, apart from load: checks beforehand, its metrics, its models, its cache.

Others import these names, and nothing else of the room.
"""

from core.server.cache import CacheReset, reset_prefix_cache
from core.server.checks import at_rest, others_between, others_now
from core.server.discovery import AGAIN_S as DISCOVER_AGAIN_S
from core.server.discovery import Discovery, Found, Places, read_replicas, replica_url
from core.server.host_metrics import MachineScraper
from core.server.http import Caller, Credential
from core.server.metrics import SCRAPE_INTERVAL_S, ScrapeError, Scraper, pace_s, regularly
from core.server.models import NoModels, list_models
from core.server.population import DatasetAsked
from core.server.preflight import AGAIN_S, Preflight, SendSingles
from core.server.probe import ServerGlance, look, place
from core.server.replicas import ReplicaScraper, ReplicasRead, one_twice
from core.server.vitals import Buckets, TpotOf, Vitals, read_vitals

__all__ = [
    "AGAIN_S",
    "DISCOVER_AGAIN_S",
    "SCRAPE_INTERVAL_S",
    "Buckets",
    "CacheReset",
    "Caller",
    "Credential",
    "DatasetAsked",
    "Discovery",
    "Found",
    "MachineScraper",
    "NoModels",
    "Places",
    "Preflight",
    "ReplicaScraper",
    "ReplicasRead",
    "ScrapeError",
    "Scraper",
    "SendSingles",
    "ServerGlance",
    "TpotOf",
    "Vitals",
    "at_rest",
    "list_models",
    "look",
    "one_twice",
    "others_between",
    "others_now",
    "pace_s",
    "place",
    "read_replicas",
    "read_vitals",
    "regularly",
    "replica_url",
    "reset_prefix_cache",
]
