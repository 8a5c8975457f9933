"""Write the generated tables into the pages of docs/, and the generated files beside them: python -m tests.docs"""

from tests.docs.tables import DOCS, FILES, PAGES, stale


def main() -> None:
    """Renew everything that is out of date, and name it."""
    renewed = stale()
    for page, text in renewed.items():
        (DOCS / page).write_text(text)
        print(f"renewed docs/{page}")
    known = len(PAGES) + len(FILES)
    print(f"{known - len(renewed)} of {known} pages with tables and files were up to date")


if __name__ == "__main__":
    main()
