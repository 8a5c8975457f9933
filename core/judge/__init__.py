"""What it means: pure functions of records and samples, and one search without I/O."""
