"""Write the generated tables into the pages of docs/: python -m tests.docs"""

from tests.docs.tables import DOCS, PAGES, stale


def main() -> None:
    """Renew every page that is out of date, and name it."""
    renewed = stale()
    for page, text in renewed.items():
        (DOCS / page).write_text(text)
        print(f"renewed docs/{page}")
    print(f"{len(PAGES) - len(renewed)} of {len(PAGES)} pages with tables were up to date")


if __name__ == "__main__":
    main()
