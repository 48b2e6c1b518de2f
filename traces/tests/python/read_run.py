"""Reads a run folder with polars, DuckDB and pandas, and no Feedline code.

Usage: read_run.py RUN, where RUN has a `disk` table (the tests and the example `write_run` make
one). Exits 0 if all three agree: on an aggregate, on nulls, and on the type of timestamps.
"""

import glob
import json
import sys

import duckdb
import pandas as pd
import polars as pl


def by_polars(run):
    rows = pl.scan_parquet(f"{run}/table=disk/*.parquet").collect()
    assert rows.schema["at"] == pl.Datetime("ns", "UTC"), rows.schema
    assert rows.schema["read_bytes"] == pl.UInt64, rows.schema
    assert rows.schema["device"] == pl.String, rows.schema
    groups = rows.group_by("device").agg(
        pl.len().alias("rows"),
        pl.col("busy").sum().alias("busy"),
        pl.col("used").null_count().alias("missing"),
        pl.col("read_bytes").max().alias("most"),
        pl.col("at").max().dt.timestamp("ns").alias("last"),
    )
    return sorted(groups.select("device", "rows", "busy", "missing", "most", "last").rows())


def by_duckdb(run):
    query = """
        select device, count(*), sum(busy)::ubigint, count(*) - count(used), max(read_bytes), epoch_ns(max("at"))
        from read_parquet(?) where "table" = 'disk' group by device
    """
    return sorted(duckdb.execute(query, [f"{run}/table=disk/*.parquet"]).fetchall())


def by_pandas(run):
    rows = pd.concat(pd.read_parquet(path) for path in sorted(glob.glob(f"{run}/table=disk/*.parquet")))
    assert str(rows["at"].dtype) == "datetime64[ns, UTC]", rows.dtypes
    exact = pd.concat(
        pd.read_parquet(path, dtype_backend="pyarrow") for path in sorted(glob.glob(f"{run}/table=disk/*.parquet"))
    )
    found = []
    for device, group in exact.groupby("device"):
        last = int(rows.loc[rows["device"] == device, "at"].max().value)
        missing = int(group["used"].isna().sum())
        found.append((device, len(group), int(group["busy"].sum()), missing, int(group["read_bytes"].max()), last))
    return sorted(found)


def main():
    run = sys.argv[1]
    with open(f"{run}/run.json", encoding="utf-8") as file:
        tables = [table["name"] for table in json.load(file)["schema"]["tables"]]
    assert "disk" in tables, tables
    answers = {reader.__name__: reader(run) for reader in (by_polars, by_duckdb, by_pandas)}
    for name, answer in answers.items():
        print(name, answer)
    assert answers["by_polars"] == answers["by_duckdb"] == answers["by_pandas"], "they disagree"
    assert sum(group[3] for group in answers["by_polars"]) > 0, "no missing value came through"


if __name__ == "__main__":
    main()
