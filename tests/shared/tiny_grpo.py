"""A tiny GPT-2 in a GRPO trainer that chooses prompts; as a script, a training in its own process."""

import json
import signal
import sys
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig

from metasched.rl.trl import ScheduledGRPOTrainer

torch.set_num_threads(1)  # a model this small only waits for more
WORDS = ["<pad>", "<end>", "odd", "even", "never", *map(str, range(10))]
ROWS = [{"prompt": f"{level} {digit}", "level": level} for level in ("odd", "even", "never") for digit in range(10)]


def tokenizer():
    whole = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="<pad>", eos_token="<end>")


def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": len(WORDS), "n_positions": 8, "n_embd": 16, "n_layer": 1, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=1, eos_token_id=1, pad_token_id=0))


def reward(completions, level, **_):
    """Whether the first digit is odd, or even; the third level is never solved."""
    digits = [next((int(word) for word in text.split() if word.isdigit()), None) for text in completions]
    wanted = {"odd": 1, "even": 0}
    return [float(digit is not None and digit % 2 == wanted.get(one)) for digit, one in zip(digits, level, strict=True)]


class Seen:
    """The reward, and every prompt that it was asked about."""

    __name__ = "reward"

    def __init__(self):
        self.prompts = []

    def __call__(self, prompts, completions, **columns):
        self.prompts.append(list(prompts))
        return reward(completions, **columns)


def arguments(folder, **changes):
    given = {
        "output_dir": str(folder),
        "max_steps": 8,
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 2,
        "learning_rate": 1e-2,
        "save_steps": 3,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
    }
    return GRPOConfig(**{**given, **changes})


def build(folder, kind=ScheduledGRPOTrainer, by="level", rows=ROWS, callbacks=None, chooser_options=None, **changes):
    return kind(
        model(),
        Seen(),
        arguments(folder, **changes),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
        callbacks=callbacks,
        by=by,
        chooser_options=chooser_options,
    )


def drawn(trainer):
    """The level and reward of every prompt, the loss of every logged step, and the prompts that were asked about."""
    history = trainer.chooser.history()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return history["source"].tolist(), history["reward"].tolist(), losses, trainer.reward_funcs[0].prompts


if __name__ == "__main__":
    folder, resume, settings = Path(sys.argv[1]), sys.argv[2] == "resume", json.loads(sys.argv[3])
    trainer = build(folder, **settings)
    trainer.train(resume_from_checkpoint=resume)
    if sys.argv[2] == "victim":  # a kill that comes late, because the machine is busy, comes all the same
        signal.pause()
    Path(folder, f"drawn-{trainer.args.process_index}.json").write_text(json.dumps(drawn(trainer)))
