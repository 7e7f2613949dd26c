"""Flags for XLA with which programs are compiled quickly and run slowly; to be set before JAX starts."""

from importlib.metadata import version

QUICK = "--xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.10."):  # a flag that XLA does not know ends the process
    QUICK += " --xla_cpu_use_fusion_emitters=false"
