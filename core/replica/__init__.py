"""A simulated vLLM replica behind the real HTTP interface; a server, not a part of the probe."""
