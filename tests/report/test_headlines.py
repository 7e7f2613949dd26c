import made_up_results as made
from metasched.report.headlines import headlines


def curves(**levels):
    return {name.replace("_", "-"): [(0.1, 0.2, level)] * 8 for name, level in levels.items()}


def test_thirty_labels_speak_for_their_experiment(tmp_path):
    cells = [made.plain_cell(curves(cyclic=0.5, ucb=0.7), variant=f"{count} labels") for count in (10, 30, 100)]
    (headline,) = headlines(made.loaded(tmp_path, *cells))
    assert headline.title == "digits, 30 labels"
    assert headline.sources[0].variant == "30 labels"


def test_says_who_is_best_and_by_how_much(tmp_path):
    content = made.plain_cell(curves(cyclic=0.5, uniform=0.4, target_only=0.3, ucb=0.7, mdp=0.6))
    (headline,) = headlines(made.loaded(tmp_path, content))
    assert [(what, name) for what, name, _ in headline.numbers] == [
        ("best active", "ucb"),
        ("best static", "cyclic"),
        ("no sources", "target-only"),
        ("samples ratio", ""),
    ]
    assert [value.value for _, _, value in headline.numbers] == [0.7, 0.5, 0.3, 1.0]
    assert headline.sentence.startswith("Exploratory: ucb ends above cyclic, +0.200 [+0.200, +0.200]")


def test_equal_methods_show_no_difference(tmp_path):
    (headline,) = headlines(made.loaded(tmp_path, made.plain_cell(curves(cyclic=0.5, ucb=0.5))))
    assert headline.sentence.startswith("Exploratory: no difference shown between ucb and cyclic")


def test_too_few_seeds_are_said_with_how_many_would_do(tmp_path):
    runs = made.plain_cell({"cyclic": [(0.1, 0.5)] * 3, "ucb": [(0.1, 0.9)] * 3})
    (headline,) = headlines(made.loaded(tmp_path, runs))
    assert "ucb against cyclic: too few seeds to tell (6 would do), +0.400" in headline.sentence


def test_a_planned_contrast_comes_before_the_best_after_the_fact(tmp_path):
    levels = {"uniform": 0.5, "cyclic": 0.55, "mdp": 0.8, "ucb": 0.7}
    runs = [
        made.run(name, seed, (0.1, level), role="ours" if name == "ucb" else "paper")
        for name, level in levels.items()
        for seed in range(8)
    ]
    (headline,) = headlines(made.loaded(tmp_path, runs))
    assert [(what, name) for what, name, _ in headline.numbers[:2]] == [("ours", "ucb"), ("baseline", "uniform")]
    assert headline.sentence.startswith("Planned: ucb ends above uniform, +0.200")


def test_the_papers_regime_has_its_gains_and_the_claimed_order(tmp_path):
    levels = {"cyclic": 0.6, "ucb": 0.7, "gittins": 0.65}
    (headline,) = headlines(made.loaded(tmp_path, made.plain_cell(curves(**levels), regime="paper", variant="B=20")))
    assert ("gain (published: 32.5)", "gittins") in [(what, name) for what, name, _ in headline.numbers]
    assert headline.sentence.endswith("By final accuracy, gittins ≥ ucb ≥ cyclic does not hold.")


def test_simulated_data_say_so(everything):
    told = [headline.title for headline in headlines(everything) if headline.sources[0].simulated]
    assert told
    assert all("simulated" in title for title in told)


def test_without_a_static_baseline_there_is_no_headline(tmp_path):
    assert headlines(made.loaded(tmp_path, made.plain_cell(curves(ucb=0.5)))) == []
