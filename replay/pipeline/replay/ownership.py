"""Owners of objects that controllers created: the order in which differences spread."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import polars as pl
from msgspec import Struct

DEEPEST = 6
"""How deep owners are followed: a CronJob's pods are at depth two."""


class Ownership(Struct, frozen=True):
    """The objects that controllers made: in columns, since there are as many as a large log creates.

    `rows` are `key`, own `uid` and uid of an `owner` (`owned.sql`); what was refused has no uid. `depths` say by `key` how many owners
    stand above an object, its `depth`, `DEEPEST` at most: objects at one depth need nothing of each other.
    """

    rows: pl.DataFrame
    depths: pl.DataFrame

    @staticmethod
    def of(rows: pl.DataFrame) -> Ownership:
        """From the answer of `owned.sql`."""
        return Ownership(rows, _depths(rows))

    @property
    def owning(self) -> frozenset[str]:
        """The uids of what owns something."""
        return frozenset(self.rows["owner"].unique())

    @property
    def deepest(self) -> int:
        """Return the greatest depth, 0 without owners."""
        return int(self.depths["depth"].max() or 0)  # type: ignore[arg-type]  # of a column of numbers

    def deeper(self, keys: Collection[str], depth: int) -> set[str]:
        """Those of some keys that are deeper than a depth."""
        return set(self.depths.filter(pl.col("depth") > depth, pl.col("key").is_in(list(keys)))["key"])

    def owned_by(self, uids: Collection[str]) -> set[str]:
        """The keys of what some owners own."""
        return set(self.rows.filter(pl.col("owner").is_in(list(uids)))["key"])

    def by_group(self, groups: Mapping[str, int]) -> Iterator[tuple[int, dict[str, tuple[str, ...]]]]:
        """Yield owners by UID for objects with some keys, group by group; `groups` are group numbers by key."""
        membership = pl.DataFrame(
            {"key": list(groups), "group": list(groups.values())}, {"key": pl.String, "group": pl.Int64}
        )
        rows = self.rows.lazy().filter(pl.col("uid") != "").join(membership.lazy(), "key", maintain_order="left")
        by_uid = rows.group_by("group", "key", "uid", maintain_order=True).agg("owner").collect()
        for (group,), of_group in by_uid.partition_by("group", as_dict=True).items():
            yield int(group), {uid: tuple(owners) for uid, owners in of_group.select("uid", "owner").iter_rows()}


def _depths(rows: pl.DataFrame) -> pl.DataFrame:
    key_of = rows.filter(pl.col("uid") != "").unique("uid", keep="last", maintain_order=True)
    key_of = key_of.select(pl.col("uid").alias("owner"), pl.col("key").alias("above"))
    above = rows.select("key", "owner").join(key_of, "owner", how="left").select("key", "above")
    depths = above.select("key").unique().with_columns(pl.lit(1, pl.Int64).alias("depth"))
    for _ in range(DEEPEST - 1):
        of_owners = above.join(depths.rename({"key": "above"}), "above", how="left")
        deeper = of_owners.group_by("key").agg(pl.col("depth").fill_null(0).max() + 1)
        if deeper["depth"].sum() == depths["depth"].sum():  # they only ever grow
            break
        depths = deeper
    return depths
