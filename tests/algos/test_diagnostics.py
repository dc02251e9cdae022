"""Statistics that are recorded in updates and read once per iteration."""

import math

import pytest
import torch

from rlpyt.algos import diagnostics
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.diagnostics import UpdateRecord, only_valid, read_means
from rlpyt.algos.pg.ppo import PPO
from tests.algos.test_updates import ALGOS, ready


def test_means_are_of_each_update_without_nan():
    record = UpdateRecord()
    record.current.update(a=torch.tensor(2.0), b=torch.tensor([[1.0, math.nan], [3.0, 5.0]]))
    record.end_update()
    record.end_update()  # an update without statistics adds nothing
    record.current.update(a=torch.tensor(4.0), b=torch.tensor([8.0]))  # packed differently
    assert read_means(record.take()) == {"a": [2, 4], "b": [3, 8]}
    assert record.take() == {} and read_means({}) == {}
    assert only_valid(torch.ones(2), torch.tensor([1.0, 0.0])).nanmean() == 1


def test_a_name_that_is_recorded_again_begins_the_next_update():
    """Algorithms from scratch may not know of updates."""
    algo = RlAlgorithm()
    for x in (1.0, 3.0):
        algo.record(a=torch.tensor(x))
        algo.record(b=torch.tensor(2 * x))
    assert algo.read_recorded() == {"a": [1.0, 3.0], "b": [2.0, 6.0]}


def test_a_record_that_nobody_reads_stays_small(monkeypatch):
    monkeypatch.setattr(diagnostics, "MOST_UPDATES", 3)
    record = UpdateRecord()
    for i in range(9):
        record.current["a"] = torch.tensor(float(i))
        record.end_update()
    assert read_means(record.take()) == {"a": [6, 7, 8]}


def test_names_that_are_not_declared_are_logged_after_the_others():
    class Narrow(PPO):
        opt_info_fields = ("loss", "gradNorm", "entropy", "perplexity", "mine")

        def loss(self, batch):
            loss, entropy, perplexity = super().loss(batch)
            self.record(other=loss)
            return loss, entropy, perplexity, loss + 1

    ALGOS["narrow"] = Narrow
    try:
        algo, (batch, *_) = ready("narrow")
    finally:
        del ALGOS["narrow"]
    info = algo.optimize_agent(6, batch)
    assert info._fields[:5] == Narrow.opt_info_fields and "piLoss" in info._fields
    assert info.other == info.loss
    assert info.mine == pytest.approx([x + 1 for x in info.loss])


@pytest.mark.parametrize("name", ["dqn", "cat", "qr", "ddpg", "td3", "sac", "sac_v"])
def test_values_and_errors_are_those_of_the_batch(name):
    algo, (batch, *_) = ready(name)
    algo.agent.train_mode(6)
    expected, update, others = [], algo.update, {"dqn", "cat", "qr"}

    def watched(samples):
        index = torch.arange(len(samples.return_)), samples.action
        with torch.no_grad():
            if name == "cat":
                z = torch.linspace(-3, 3, algo.agent.n_atoms)
                q = (algo.agent(*samples.agent_inputs) * z).sum(-1)[index]
            elif name in others:
                out = algo.agent(*samples.agent_inputs)
                q = out.mean(-1)[index] if name == "qr" else out[index]
            else:
                q = algo.agent.q(*samples.agent_inputs, samples.action)
        expected.append(q.mean().item())
        return update(samples)

    algo.update = watched
    info = algo.optimize_agent(6, batch)
    seen = info.qEnsembleMean if name.startswith("sac") else info.q
    assert len(seen) > 0 and seen == pytest.approx(expected, rel=1e-4, abs=1e-6)
    if name not in others:
        assert len(info.tdAbsErr) == len(seen) and min(info.tdAbsErr) > 0
        rates = {"LearningRate", "QLearningRate"} if "sac" not in name else {"LearningRate"}
        assert set(algo.statistics()) == rates


def test_entropy_is_that_of_the_drawn_actions():
    algo, (batch, *_) = ready("sac")
    algo.agent.train_mode(6)
    info = algo.optimize_agent(6, batch)
    excess = [algo._target_entropy - entropy for entropy in info.entropy]
    log_alphas = [0.0, *(math.log(alpha) for alpha in info.alpha[:-1])]  # before each update
    expected = [-a * x for a, x in zip(log_alphas, excess)]
    assert info.alphaLoss == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("n", [1, 5, 1000])
def test_means_of_few_and_many_numbers_skip_nan(n):
    x = torch.arange(n, dtype=torch.float32)
    means = read_means({"plain": [x], "gap": [torch.cat([x, torch.tensor([torch.nan])])]})
    assert means["plain"] == means["gap"] == [pytest.approx((n - 1) / 2)]


def test_the_mean_of_no_numbers_is_nan():
    assert math.isnan(read_means({"none": [torch.zeros(0)]})["none"][0])
