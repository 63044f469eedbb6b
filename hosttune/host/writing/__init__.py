"""Changing: files replaced so that nothing is lost, folders, links, mounts, locks."""
