"""`packages: LIST`: the wish of package.py under the word for several."""

from __future__ import annotations

from hosttune.resources.packages.package import PackagesWish

WISH = PackagesWish("packages")
