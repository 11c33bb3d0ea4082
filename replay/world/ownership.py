"""Owners of objects that controllers created, which give the order in which differences spread."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from replay.on_demand import pl

DEEPEST = 6
"""The greatest depth to which owners are followed. The pods of a CronJob have depth two."""


class Ownership(Struct, frozen=True):
    """The objects that controllers created, as columns because a large log creates many.

    `rows` (of `owned.sql`) has the columns `key`, `uid` of the object and `owner` (a UID). A refused creation has no
    UID. `depths` has for each `key` its `depth`, which is the number of owners above it, at most `DEEPEST`. Objects at
    one depth do not depend on each other.
    """

    rows: pl.DataFrame
    depths: pl.DataFrame

    @staticmethod
    def from_rows(rows: pl.DataFrame) -> Ownership:
        """Return the ownership from the rows of `owned.sql`, or from no row, which need not have columns."""
        if rows.is_empty():
            names = dict.fromkeys(("key", "uid", "owner"), pl.String)
            return Ownership(pl.DataFrame(schema=names), pl.DataFrame(schema={"key": pl.String, "depth": pl.Int64}))
        return Ownership(rows, _depths(rows))

    @property
    def owner_uids(self) -> frozenset[str]:
        """Return the UIDs of all owners."""
        return frozenset(self.rows["owner"].unique())

    @property
    def deepest(self) -> int:
        """Return the greatest depth, 0 without owners."""
        return int(self.depths["depth"].max() or 0)  # type: ignore[arg-type]  # of a column of numbers

    def deeper(self, keys: Collection[str], depth: int) -> set[str]:
        """Return the keys that are deeper than a depth."""
        return set(self.depths.filter(pl.col("depth") > depth, pl.col("key").is_in(list(keys)))["key"])

    def owned_by(self, uids: Collection[str]) -> set[str]:
        """Return the keys of the objects that some owners own."""
        return set(self.rows.filter(pl.col("owner").is_in(list(uids)))["key"])

    def by_group(self, groups: Mapping[str, int]) -> Iterator[tuple[int, dict[str, tuple[str, ...]]]]:
        """Yield for each group its number and the owners by UID. `groups` maps keys to group numbers."""
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
        if deeper["depth"].sum() == depths["depth"].sum():  # depths only grow, so an equal sum means no change
            break
        depths = deeper
    return depths
