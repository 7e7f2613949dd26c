"""Hugging Face Transformers: a ``Trainer`` that chooses which rows of which source each optimiser step learns from.

>>> trainer = ScheduledTrainer(model, args, sources={"wiki": wiki, "code": code}, target=mine)
>>> trainer.train()

Each source is a data set with rows that the model's collator takes. A step asks a chooser for its rows, splits them
among micro-batches and processes, and tells the chooser how much each row helped the target. :class:`ScheduleMixin`
adds this to TRL's ``SFTTrainer`` and similar trainers.
"""

from metasched.optional import require

require("transformers", "transformers")

from metasched.transformers.trainer import ScheduledTrainer, ScheduleMixin  # noqa: E402

__all__ = ["ScheduleMixin", "ScheduledTrainer"]
