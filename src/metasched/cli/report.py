"""``metasched report``: results as one page."""

from pathlib import Path

import tyro
from rich.markup import escape

from metasched.cli.common import app, listed, print_json, say, stderr
from metasched.errors import ConfigError


@app.command
def report(
    paths: tyro.conf.Positional[tuple[Path, ...]],
    out: Path = Path("page.html"),
    only: str = "",
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Make one page from results: the verdict, figures and tables, also as files.

    Example: metasched report results runs/a --out page.html --only fig3

    Args:
        paths: Files of outcomes, run folders, or folders that contain either.
        out: The page to write; figures and tables go into a folder next to it (page_files for page.html).
        only: Names of figures and tables, separated by commas; by default all that the results allow.
        quiet: No progress bar.
        json: Print the verdict as JSON.
    """
    from metasched.cli import progress
    from metasched.optional import require
    from metasched.report import page, results

    if not paths:
        raise ConfigError("nothing to report; give files of outcomes, run folders, or folders that contain them")
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"{out}: the page is HTML; end --out in .html")
    page.check_place(out)
    chosen = listed(only)
    page.check_names(chosen)
    for module in ("altair", "jinja2", "vl_convert"):
        require(module, "report")
    found = results.load(paths)
    for line in (*found.faults, *found.notes):
        stderr().print(f"note: {escape(line)}", highlight=False, soft_wrap=True)
    made = page.build(found, chosen)
    with progress.counting(stderr(), "figures", quiet) as on_step:
        folder = page.write(made, out, on_step)
    if json:
        print_json(
            {
                "page": str(out),
                "files": str(folder),
                "first": made.opening.first,
                "verdict": made.opening.title,
                "sentences": [str(line) for line in made.opening.sentences],
                "warnings": [str(line) for line in made.opening.warnings],
                "figures": [figure.key for figure in made.figures],
                "tables": [table.key for table in made.tables],
                "missing": dict(made.missing),
                "notes": [*found.faults, *found.notes],
            }
        )
        return
    say("\n".join(made.opening.lines))
    counted = ", ".join(
        f"{len(items)} {name}{'' if len(items) == 1 else 's'}"
        for name, items in (("figure", made.figures), ("table", made.tables), ("cell", found.cells))
    )
    if made.missing:
        counted += f"; not available: {', '.join(name for name, _ in made.missing)} (the page says why)"
    say(f"\n{counted}\nPage: {out}\nFiles: {folder}")
