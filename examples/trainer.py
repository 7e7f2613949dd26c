"""Transformers: a byte-level GPT-2 of two layers; its rows come from the sources that help the target most.

Sources: the help of Python's strings, base64 and digits; the target is the help of its dictionaries, of which there is
little. Needs: pip install 'metasched[transformers]'
"""

import base64
import random
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

from metasched.transformers import ScheduledTrainer

random.seed(0)
torch.set_num_threads(1)
english = " ".join(str(getattr(str, name).__doc__) for name in dir(str))
wanted = " ".join(str(getattr(dict, name).__doc__) for name in dir(dict))[:1500]
texts = {
    "base64": base64.b64encode(random.randbytes(6000)).decode(),
    "english": english,
    "digits": "".join(random.choices("0123456789", k=6000)),
}


def rows(text, length=32):
    data = torch.tensor(list(text.encode()))
    return [{"input_ids": row, "labels": row} for row in data.unfold(0, length, length)]


sizes = {"vocab_size": 256, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
with tempfile.TemporaryDirectory() as folder:
    trainer = ScheduledTrainer(
        GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)),
        TrainingArguments(
            folder,
            max_steps=80,
            per_device_train_batch_size=8,
            learning_rate=3e-3,
            logging_steps=20,
            save_steps=40,  # trainer.train(resume_from_checkpoint=True) goes on with the very next draw
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        sources={name: rows(text) for name, text in texts.items()},
        target=rows(wanted),
        scheduler="thompson",
        eval_dataset=rows(wanted),
    )
    trainer.train()
    loss = trainer.evaluate()["eval_loss"]

drawn = [int(trainer.chooser.log()[f"draws/{name}"]) for name in texts]
print(f"target loss {loss:.2f}; rows of each source {drawn}")
