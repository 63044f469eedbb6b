"""Files that people send for help, read as a record of the host: the report of nvidia-bug-report.sh.

sections: its grammar. lspci, smi: two of its texts, as the answers that facts ask for. bug_report: the whole of it.
reader: a record reader over that.
"""
