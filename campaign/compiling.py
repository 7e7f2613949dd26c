"""Settings of processes that test: programs compile quickly and run slowly, on one thread. Set before JAX starts."""

from importlib.metadata import version

QUICK = "--xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.10."):  # a flag that XLA does not know ends the process
    QUICK += " --xla_cpu_use_fusion_emitters=false"

# The threads of a process decide how XLA splits a large sum, and so its last bits. With one thread, as the workers of
# ``metasched.runs.executors`` have it, results are the same on any number of cores, and those who run at once do not
# wait for each other.
_POOLS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SETTINGS = {"XLA_FLAGS": f"{QUICK} --xla_cpu_multi_thread_eigen=false", **dict.fromkeys(_POOLS, "1")}
"""For the environment."""
