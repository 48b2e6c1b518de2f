"""Feedline's boosted trees against LightGBM: the same rows, folds and settings.

    python3 tests/learning/against_lightgbm.py BOOST_EXAMPLE

BOOST_EXAMPLE is the built example `boost` of models/. Needs numpy and lightgbm from PyPI. Prints a
Markdown table: mean absolute error on rows whose fold was left out.
"""

import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lightgbm
import numpy

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = [(200, 15, 0.07), (200, 4, 0.07), (300, 31, 0.05)]


def friedman(rows, seed):
    """Friedman's first function with noise of deviation 1, ten folds; one input in ten is missing."""
    random = numpy.random.default_rng(seed)
    x = random.random((rows, 10))
    y = 10 * numpy.sin(numpy.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y += random.normal(size=rows)
    x[random.random(x.shape) < 0.1] = numpy.nan
    return numpy.arange(rows) % 10, y, x, [0] * 10


def mlperf(target, log):
    """Published MLPerf Storage runs, a submitter a fold."""
    with open(ROOT / "models/data/mlperf_storage/runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    named = ["model", "accelerator", "storage_class", "network"]
    plain = ["network_gbit", "n_client_nodes", "n_accelerators", "accelerators_per_client", "batch_size", "read_threads",
             "computation_threads", "prefetch_size", "computation_time_s", "dataset_GiB", "host_cpu_count", "host_memory_GB"]
    columns, levels = [], []
    for name in named:
        names = sorted({row[name] for row in rows})
        columns.append([names.index(row[name]) for row in rows])
        levels.append(len(names))
    for name in plain:
        columns.append([float(row[name]) if row[name] else numpy.nan for row in rows])
        levels.append(0)
    y = numpy.array([float(row[target]) for row in rows])
    submitters = sorted({row["submitter"] for row in rows})
    fold = numpy.array([submitters.index(row["submitter"]) for row in rows])
    return fold, numpy.log(y) if log else y, numpy.array(columns, dtype=float).T, levels


def ours(example, folds, y, x, levels, setting, leaf):
    with tempfile.TemporaryDirectory() as folder:
        source, answer = Path(folder) / "in.csv", Path(folder) / "out.txt"
        with open(source, "w") as file:
            heads = [f"x{i}" + (f":{k}" if k else "") for i, k in enumerate(levels)]
            file.write(",".join(["fold", "y", *heads]) + "\n")
            for fold, value, row in zip(folds, y, x):
                cells = ["" if numpy.isnan(v) else repr(float(v)) for v in row]
                file.write(",".join([str(fold), repr(float(value)), *cells]) + "\n")
        began = time.monotonic()
        subprocess.run([example, source, answer, *map(str, setting), str(leaf)], check=True)
        return numpy.loadtxt(answer), time.monotonic() - began


def theirs(folds, y, x, levels, setting, leaf):
    trees, leaves, rate = setting
    parameters = dict(objective="l2", num_leaves=leaves, learning_rate=rate, min_data_in_leaf=leaf, lambda_l2=1.0,
                      min_sum_hessian_in_leaf=0, verbose=-1, num_threads=1, deterministic=True, seed=1,
                      cat_smooth=1, cat_l2=2, min_data_per_group=leaf, max_bin=255)
    said = numpy.full(len(y), numpy.nan)
    named = [i for i, k in enumerate(levels) if k]
    began = time.monotonic()
    for fold in numpy.unique(folds):
        train = folds != fold
        data = lightgbm.Dataset(x[train], y[train], categorical_feature=named, params={"verbose": -1})
        said[~train] = lightgbm.train(parameters, data, trees).predict(x[~train])
    return said, time.monotonic() - began


def main():
    example = sys.argv[1]
    cases = [
        ("Friedman 1, 500 rows", friedman(500, 1), 3),
        ("Friedman 1, 2,000 rows", friedman(2000, 2), 20),
        ("Friedman 1, 10,000 rows", friedman(10000, 3), 20),
        ("MLPerf, utilisation (points)", mlperf("au_mean_pct", False), 3),
        ("MLPerf, log of rate a client", mlperf("MB_per_s_per_client", True), 3),
    ]
    print("| data | trees, leaves, rate | ours | LightGBM | seconds ours | seconds LightGBM |")
    print("|---|---|---|---|---|---|")
    for name, (folds, y, x, levels), leaf in cases:
        for setting in SETTINGS:
            mine, my_seconds = ours(example, folds, y, x, levels, setting, leaf)
            other, other_seconds = theirs(folds, y, x, levels, setting, leaf)
            errors = [numpy.abs(said - y).mean() for said in (mine, other)]
            shown = " | ".join(f"{e:.4f}" for e in errors)
            print(f"| {name} | {setting[0]}, {setting[1]}, {setting[2]} | {shown} | {my_seconds:.1f} | {other_seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
