"""Files that people send for help, read as a record of the host: the report of
nvidia-bug-report.sh, and sosreports.

sections: the grammar of the first. lspci, smi: two texts, as the answers that facts ask for.
bug_report, sos: the whole of each. archive: a packed tar in memory. reader: a record reader over
that.
"""


def is_support_file(content: bytes) -> bool:
    """Whether a file begins as one of them."""
    from hosttune.host.support.archive import is_archive
    from hosttune.host.support.bug_report import is_bug_report

    return not content.startswith(b"{") and (is_bug_report(content) or is_archive(content))
