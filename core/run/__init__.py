"""One run, live or recorded: events, their log, the state they make, and the session that produces them."""
