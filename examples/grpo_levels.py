"""TRL: GRPO teaches a tiny GPT-2 to reverse digits, with prompts of the lengths that it can learn from at the moment.

It is first taught lengths 1 and 2. Then 3 is within reach, for a digit more is sometimes right by chance; 6 is not.
Needs: pip install 'metasched[trl]'
"""

import random
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig

from metasched.rl.trl import ScheduledGRPOTrainer

random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)
WORDS, LEVELS = [*"01234", ".", "?", "<end>"], {"1": 1, "2": 2, "3": 3, "6": 6}
words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="."))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token=".", eos_token="<end>")


def row(level):
    digits = random.choices("01234", k=LEVELS[level])
    return {"prompt": " ".join(["."] * (6 - len(digits)) + digits + ["?"]), "answer": digits[::-1], "level": level}


def right(completions, answer, **_):
    return [float(text.split()[: len(one)] == one) for text, one in zip(completions, answer, strict=True)]


sizes = {"vocab_size": len(WORDS), "n_positions": 16, "n_embd": 64, "n_layer": 2, "n_head": 4}
dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
model = GPT2LMHeadModel(GPT2Config(**sizes, **dropout, bos_token_id=7, eos_token_id=7))
optimiser = torch.optim.Adam(model.parameters(), 2e-3)
for _ in range(400):
    rows = [row(random.choice("12")) for _ in range(32)]
    texts = [one["prompt"].split() + (one["answer"] + ["."])[:2] for one in rows]
    ids = torch.tensor([[WORDS.index(word) for word in text] for text in texts])
    wanted = ids[:, 7:].where(ids[:, 7:] < 5, -100)  # nothing is said about what comes after the answer
    loss = torch.nn.functional.cross_entropy(model(ids).logits[:, 6:-1].flatten(0, 1), wanted.flatten())
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()

with tempfile.TemporaryDirectory() as folder:
    args = GRPOConfig(
        **{"output_dir": folder, "max_steps": 60, "learning_rate": 1e-3, "lr_scheduler_type": "constant"},
        **{"per_device_train_batch_size": 64, "num_generations": 8, "max_completion_length": 6, "logging_steps": 20},
        **{"report_to": "none", "disable_tqdm": True, "use_cpu": True, "bf16": False},
    )  # trainer.train(resume_from_checkpoint=True) goes on with the very next prompts
    rows = Dataset.from_list([row(level) for level in LEVELS for _ in range(200)])
    trainer = ScheduledGRPOTrainer(model, right, args, train_dataset=rows, processing_class=tokenizer, by="level")
    trainer.train()
drawn = [int(trainer.chooser.metrics()[f"draws/{level}"]) for level in LEVELS]
print(f"prompts of each level {drawn}")
