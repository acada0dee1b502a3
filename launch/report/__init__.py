"""The report of a run: `story` reads the record, `model` makes plain data of it, `page` one HTML file."""
