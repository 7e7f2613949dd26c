"""scikit-learn: ``partial_fit`` on batches of three sources, chosen by Thompson sampling.

The sources are real handwritten digits: one as they are, one with shuffled labels, one with shuffled pixels. The
reward is the accuracy on 100 held-out digits. Needs: pip install scikit-learn
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import metasched as ms

random = np.random.default_rng(0)
inputs, labels = load_digits(return_X_y=True)
inputs = inputs / 16
target, rest = slice(0, 100), slice(100, None)
inputs_good, labels_good = inputs[rest], labels[rest]
sources = [
    (inputs_good, random.permutation(labels_good)),
    (random.permuted(inputs_good, axis=1), labels_good),
    (inputs_good, labels_good),
]

model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.02, random_state=0)
chooser = ms.Chooser("thompson", [len(source[1]) for source in sources], 20, batching="per_source")
for _ in range(150):
    draw = chooser.ask()
    source_inputs, source_labels = sources[draw.task]
    model.partial_fit(source_inputs[draw.rows], source_labels[draw.rows], classes=np.arange(10))
    chooser.tell(draw, model.score(inputs[target], labels[target]))

drawn = np.bincount(chooser.history()["task"], minlength=3).tolist()
print(f"target accuracy {model.score(inputs[target], labels[target]):.2f}; batches of each source {drawn}")
