"""Linux page reclaim and writeback in a deterministic laboratory.

>>> import lowmark
>>> result = lowmark.run("experiments/usb-stick.toml", iterations=2)   # doctest: +SKIP
>>> print(result.compare().text)                                       # doctest: +SKIP
>>> result.summary.to_pandas()                                         # doctest: +SKIP

Tables are Arrow's: polars, pandas, pyarrow and DuckDB take them without a copy. Every failure
raises :class:`lowmark.Error` with the message of the command line; Ctrl-C stops a run as it stops
the command.
"""

from ._lowmark import Error, __version__
from ._machine import Machine
from ._mrc import Curves, Policy, mrc
from ._result import Comparison, Result, Table, load
from ._run import Experiment, Reproduction, compare, reproduce, revision, run
from ._search import Found, Trial, search
from ._sweep import Sweep, sweep

__all__ = [
    "Comparison",
    "Curves",
    "Error",
    "Experiment",
    "Found",
    "Machine",
    "Policy",
    "Reproduction",
    "Result",
    "Sweep",
    "Table",
    "Trial",
    "__version__",
    "compare",
    "load",
    "mrc",
    "reproduce",
    "revision",
    "run",
    "search",
    "sweep",
]
