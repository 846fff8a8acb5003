# %% [markdown]
# # Two pictures from the tables that experiments write
#
# The tables are made by
#
#     python -m bench saved-io --quick --counts-only --repetitions 5
#     python -m bench policies --parts trees --quick --repetitions 5
#
# Each row is an observation: settings, counts, and which repetition it is.  What a column is stands in
# the JSON beside the CSV.  Needs pandas, scipy and matplotlib; open it as a notebook (Jupytext, VS Code),
# or run `python bench/examples/notebook/pictures.py [FOLDER OF TABLES]`.

# %%
import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from scipy.stats import t

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
saved, policies = (pd.read_csv(folder / name / f"{name}.csv") for name in ("saved-io", "policies"))
told = json.loads((folder / "saved-io" / "saved-io.json").read_text())
print(told["command"], told["environment"]["processor"], f"{len(saved)} rows", sep="\n")
pd.DataFrame(told["columns"]).set_index("name").head()


# %%
def between_seeds(rows: pd.DataFrame, settings: list[str], figure: str) -> pd.DataFrame:
    """Mean of a figure by its settings, and half of Student's 95 % interval between seeds."""
    found = rows.groupby(settings)[figure].agg(["mean", "sem", "count"]).reset_index()
    found["half"] = found["sem"] * t.ppf(0.975, found["count"] - 1)
    return found


# %% [markdown]
# ## Disk reads left for an absent key, by the false-positive rate of the filters

# %%
absent = saved[(saved.hit_ratio == 0) & saved.comparison.isna() & (saved.lookups_of == "drawn")]
absent = absent.assign(reads=absent.data_block_reads / absent.lookup_count)
shape = ["dataset", "block_size_bytes", "run_count"]
figure, axes = plt.subplots()
for name, rows in absent.dropna(subset=["error_rate_requested"]).groupby(shape):
    means = between_seeds(rows, ["error_rate_requested"], "reads")
    axes.errorbar(
        means.error_rate_requested, means["mean"], means.half, marker="o", label=str(name)
    )
axes.set(xscale="log", yscale="log", xlabel="p asked for", ylabel="blocks read for an absent key")
axes.invert_xaxis()
axes.legend(title=", ".join(shape), fontsize="small")
figure.savefig(folder / "reads-left.png")

# %% [markdown]
# ## The same memory, shared alike among the runs of a tree or by Monkey's rates

# %%
trees = policies[(policies.part == "trees") & (policies.filters != "hits")]
trees = trees[(trees.level_count == 3) & (trees.size_ratio == 4)]
trees = trees.assign(reads=trees.wasted_reads / trees.lookup_count)
figure, axes = plt.subplots()
for name, rows in trees.groupby(["load", "filters"]):
    means = between_seeds(rows, ["bits_per_key"], "reads")
    axes.errorbar(means.bits_per_key, means["mean"], means.half, marker="o", label=", ".join(name))
axes.set(yscale="log", xlabel="filter memory, bits per key", ylabel="blocks read for an absent key")
axes.legend()
figure.savefig(folder / "policies.png")
