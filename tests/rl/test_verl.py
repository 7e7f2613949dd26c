"""verl's data loader and trainer with prompts that are chosen; skipped without the package, which is large.

The trainer's loop needs GPUs. What this adapter touches of it runs here on a CPU: the data loader with its checkpoint,
the batch that goes to the rollouts, and the advantages, in a real TransferQueue.
"""

import warnings

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs: pip install verl")
hydra = pytest.importorskip("hydra")
tq = pytest.importorskip("transfer_queue")
ray = pytest.importorskip("ray")
datasets = pytest.importorskip("datasets")
torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

from importlib.resources import files  # noqa: E402

from metasched.errors import ConfigError  # noqa: E402

with warnings.catch_warnings():  # of other packages, whose they are
    warnings.simplefilter("ignore")
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.v1 import get_trainer_cls
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    from metasched.rl.verl import PromptDataset, PromptTrainer

LEVELS = ["solved"] * 20 + ["reach"] * 20 + ["never"] * 20
SETTINGS = [
    "data.custom_cls.path=pkg://metasched.rl.verl",
    "data.custom_cls.name=PromptDataset",
    "data.dataloader_num_workers=0",
    "data.train_batch_size=8",
    "data.filter_overlong_prompts=false",
    "trainer.v1.trainer_mode=metasched",
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.rollout.n=4",
    "+data.metasched.by=level",
    "+data.metasched.memory=50",
]


@pytest.fixture
def trainer(tmp_path):
    """A function that makes the trainer with its data loaders, as far as no GPU is needed."""
    rows = [
        {"prompt": [{"role": "user", "content": str(number)}], "level": level, "data_source": "mine"}
        for number, level in enumerate(LEVELS)
    ]
    path = str(tmp_path / "prompts.parquet")
    datasets.Dataset.from_list(rows).to_parquet(path)

    def make(*changes):
        with hydra.initialize_config_dir(str(files("verl.trainer").joinpath("config")), version_base=None):
            given = [f"data.train_files={path}", f"data.val_files={path}", *SETTINGS, *changes]
            one = PromptTrainer(hydra.compose("ppo_trainer", given))
        one.tokenizer = one.processor = None
        one._init_dataloader()
        return one

    return make


@pytest.fixture(scope="module")
def queue():
    """TransferQueue on this machine."""
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    tq.init()
    yield
    tq.close()
    ray.shutdown()


def rolled_out(trainer, random):
    """A batch as it would come back from the rollouts: four completions of each prompt, of one to three tokens."""
    batch = trainer._fetch_one_gen_batch()
    prompts = [int(chat[0]["content"]) for chat in batch["raw_prompt"]]
    chances = {"solved": 1.0, "reach": 0.5, "never": 0.0}
    keys, scores, fields = [], [], []
    for uid, prompt in zip(batch["uid"], prompts, strict=True):
        for session in range(4):
            keys.append(f"{uid}_{session}_0")
            scores.append(float(random.random() < chances[LEVELS[prompt]]))
            rewards = torch.zeros(int(random.integers(1, 4)))
            rewards[-1] = scores[-1]
            fields.append(
                {"uid": uid, "rm_scores": rewards, "response_mask": torch.ones(len(rewards), dtype=torch.int64)}
            )
    tags = [{} for _ in keys]
    tq.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    return prompts, np.array(scores), KVBatchMeta(partition_id="train", keys=keys, tags=tags)


def test_it_is_the_trainer_of_its_name_and_synchronous(trainer):
    assert get_trainer_cls("metasched") is PromptTrainer
    assert trainer().trainer_mode == "sync"


def test_advantages_are_told_and_most_prompts_are_of_the_level_within_reach(trainer, queue):
    one, random = trainer(), np.random.default_rng(0)
    for _ in range(25):
        *_, batch = rolled_out(one, random)
        metrics = {}
        one._compute_advantage(batch, metrics)
        tq.kv_clear(keys=batch.keys, partition_id="train")
    assert metrics["metasched/share/reach"] > 0.6
    assert metrics["metasched/waiting"] == 0
    assert one.train_dataset.asked == {}


def test_a_checkpoint_of_the_data_loader_goes_on_with_the_same_prompts(trainer, queue, tmp_path):
    one, random = trainer(), np.random.default_rng(0)
    for _ in range(3):
        *_, batch = rolled_out(one, random)
        one._compute_advantage(batch, {})
    _, scores, late = rolled_out(one, random)  # it waits when the checkpoint is made
    torch.save(one.train_dataloader.state_dict(), tmp_path / "data.pt")
    again = trainer()
    again.train_dataloader.load_state_dict(torch.load(tmp_path / "data.pt", weights_only=False))
    for trained in (one, again):
        trained.next = [int(chat[0]["content"]) for chat in trained._fetch_one_gen_batch()["raw_prompt"]]
        trained._compute_advantage(late, {})
    assert again.next == one.next
    assert again.train_dataset.chooser.metrics() == one.train_dataset.chooser.metrics()
    assert 0 < scores.mean() < 1


@pytest.mark.parametrize("damage", [{"chooser": None}, {"asked": None}, {"asked": {"a": "b"}}])
def test_a_state_of_another_data_set_is_refused_in_one_line(trainer, damage):
    one = trainer().train_dataset
    state = {name: part for name, part in {**one.state_dict(), **damage}.items() if part is not None}
    with pytest.raises(ConfigError, match="the checkpoint has no state of this data set; begin anew"):
        one.load_state_dict(state)


def test_rows_for_validation_are_read_as_ever(trainer):
    one = trainer()
    (rows,) = list(one.val_dataloader)
    assert sorted(int(chat[0]["content"]) for chat in rows["raw_prompt"]) == list(range(60))
    assert isinstance(one.val_dataset, PromptDataset)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data.dataloader_num_workers=2", "data.dataloader_num_workers=0"),
        ("data.custom_cls.path=null", "data.custom_cls.path=pkg"),
        ("~data.metasched.by", r"give data\.metasched\.by"),
        ("data.metasched.by=levle", "unknown column 'levle'"),
        ("data.metasched.memory=1", "memory is 1"),
    ],
)
def test_settings_are_refused_in_one_line(trainer, change, said):
    with pytest.raises(ConfigError, match=said):
        trainer(change)
