"""The tables in docs/ that are made from the code, and what checks the pages. `python -m tests.docs` renews the tables."""
