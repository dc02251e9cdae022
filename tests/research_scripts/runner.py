"""A runner of the project: it logs a column of its own and stops early."""

import csv

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context


class LoggingRunner(MinibatchRl):
    def __init__(self, threshold, **kwargs):
        super().__init__(**kwargs)
        self.threshold = threshold
        self.n_seen = 0

    def store_diagnostics(self, itr, traj_infos, opt_info):
        self.n_seen += len(traj_infos)
        super().store_diagnostics(itr, traj_infos, opt_info)

    def log_diagnostics(self, itr, prefix="Diagnostics/"):
        logger.record_tabular("EpisodesSeen", self.n_seen)
        logger.log(f"iteration {itr}: {self.n_seen} episodes")
        super().log_diagnostics(itr, prefix=prefix)

    def get_itr_snapshot(self, itr):
        snapshot = super().get_itr_snapshot(itr)
        snapshot["threshold"] = self.threshold
        return snapshot


if __name__ == "__main__":
    import torch

    sampler = SerialSampler(Walk, dict(horizon=3), batch_T=6, batch_B=2)
    runner = LoggingRunner(
        threshold=0.5,
        algo=A2C(),
        agent=PolicyAgent(),
        sampler=sampler,
        n_steps=72,
        log_interval_steps=36,
        log_traj_window=10,
    )
    with logger_context("runs", "a", "own_runner", {}, snapshot_mode="last", override_prefix=True):
        runner.train()
    with open("runs/run_a/progress.csv") as f:
        assert float(list(csv.DictReader(f))[-1]["EpisodesSeen"]) > 0
    assert torch.load("runs/run_a/params.pkl")["threshold"] == 0.5
