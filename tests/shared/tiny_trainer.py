"""A byte-level language model of two layers in a scheduled trainer; as a script, a training in its own process."""

import json
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments, default_data_collator

from metasched.transformers import ScheduledTrainer

LENGTH = 16
torch.set_num_threads(1)  # a model this small only waits for more


class Texts(torch.utils.data.Dataset):
    """Windows of a text, byte by byte."""

    def __init__(self, text, rows):
        data = (text * (rows * LENGTH // len(text) + 2)).encode()
        self.rows = [list(data[start * 7 : start * 7 + LENGTH]) for start in range(rows)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        ids = torch.tensor(self.rows[number])
        return {"input_ids": ids, "labels": ids, "source": "a column that no model takes"}


SOURCES = {
    "same": Texts("the quick brown fox jumps over the lazy dog. ", 40),
    "noise": Texts("q7#x!z@0kV~^&*()_+=-][{}|;:<>?/\\\"'`%$MNBVCXZ", 30),
    "other": Texts("0123456789 9876543210 13579 24680 ", 50),
}
TARGET = Texts("a lazy dog and the quick fox jump over the brown one. ", 20)


def model(dropout=0.1):
    torch.manual_seed(0)
    sizes = {"vocab_size": 256, "n_positions": LENGTH + 1, "n_embd": 16, "n_layer": 2, "n_head": 2}
    chances = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    one = GPT2LMHeadModel(GPT2Config(**sizes, **chances, bos_token_id=0, eos_token_id=0))
    one.loss_type = "ForCausalLM"  # the last token of a row predicts nothing and is not to be counted
    return one


def arguments(folder, **changes):
    given = {
        "output_dir": str(folder),
        "max_steps": 12,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "learning_rate": 1e-2,
        "save_steps": 5,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return TrainingArguments(**{**given, **changes})


def build(folder, trainer=ScheduledTrainer, dropout=0.1, sources=SOURCES, **others):
    settings = {name: others.pop(name) for name in list(others) if hasattr(TrainingArguments, name)}
    args = arguments(folder, **settings)
    return trainer(model(dropout), args, sources=sources, **{"target": TARGET, **others})


def told(trainer):
    """Source and reward of every draw, and the loss of every logged step."""
    history = trainer.chooser.history()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    rewards = [None if np.isnan(reward) else reward for reward in history["reward"].tolist()]
    return history["task"].tolist(), rewards, losses


if __name__ == "__main__":
    folder, resume, steps = Path(sys.argv[1]), sys.argv[2] == "resume", int(sys.argv[3])
    seen = []

    def collate(rows):
        seen.append([row["input_ids"].tolist() for row in rows])
        return default_data_collator(rows)

    by_row = {"reward_every": 2, "target_every": 3} if sys.argv[4:] == ["rows"] else {"batching": "per_source"}
    one = build(folder, max_steps=steps, data_collator=collate, **by_row)
    one.train(resume_from_checkpoint=resume)
    if sys.argv[2] == "victim":  # a kill that comes late, because the machine is busy, comes all the same
        signal.pause()
    rank = one.args.process_index
    sources = [line for line in one.state.log_history if "loss" in line]
    Path(folder, f"told-{rank}.json").write_text(json.dumps([*told(one), seen, sources]))
