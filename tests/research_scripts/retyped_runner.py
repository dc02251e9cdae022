"""A runner with rlpyt's own `log_diagnostics`, retyped; collectors that start and evaluate anew."""

import csv
import time

import numpy as np
import torch
from common import PolicyAgent, Walk

from rlpyt.agents.base import AgentInputs
from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.collectors import BaseEvalCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.buffer import buffer_from_example
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context

FIRST = 1000  # length of the first trajectories, so that they are known


class StartingCollector(CpuResetCollector):
    """Starts every environment itself."""

    def start_envs(self, max_decorrelation_steps=0):
        traj_infos = [self.TrajInfoCls() for _ in self.envs]
        for info in traj_infos:
            info.Length = FIRST
        observations = [env.reset() for env in self.envs]
        nothing = np.int64(0), np.float32(0)
        inputs = buffer_from_example(AgentInputs(observations[0], *nothing), len(self.envs))
        for b, observation in enumerate(observations):
            inputs.observation[b] = observation
        return inputs, traj_infos


class QueueingEvalCollector(BaseEvalCollector):
    """Plays until the sampler has enough trajectories."""

    def collect_evaluation(self, itr):
        assert itr >= 0
        self.agent.eval_mode(itr)
        observations = [env.reset() for env in self.envs]
        infos = [self.TrajInfoCls() for _ in self.envs]
        for _ in range(self.max_T):
            if self.sync.stop_eval.value:
                break
            for b, env in enumerate(self.envs):
                row = torch.from_numpy(np.array(observations[b]))[None]
                action, agent_info = self.agent.step(row, torch.zeros(1, 2), torch.zeros(1))
                o, r, d, env_info = env.step(action[0].numpy())
                infos[b].step(observations[b], action[0], r, d, agent_info[0], env_info)
                if d:
                    self.traj_infos_queue.put(infos[b].terminate(o))
                    infos[b], o = self.TrajInfoCls(), env.reset()
                observations[b] = o
        self.traj_infos_queue.put(None)


class RetypedRunner(MinibatchRlEval):
    evaluated, longest = [], 0

    def startup(self):
        assert self.affinity.get("cuda_idx", None) is None
        return super().startup()

    def initialize_logging(self):
        super().initialize_logging()
        self._opt_infos = None  # this runner keeps none

    def store_diagnostics(self, itr, traj_infos, opt_info):
        self._cum_completed_trajs += len(traj_infos)
        self.longest = max([self.longest, *(info["Length"] for info in traj_infos)])

    def log_diagnostics(self, itr, eval_traj_infos, eval_time, prefix="Diagnostics/"):
        self.evaluated.append((itr, len(eval_traj_infos)))
        self.save_itr_snapshot(itr)
        new_time = time.time()
        self._cum_time = new_time - self._start_time
        steps = (itr + 1) * self.sampler.batch_size * self.world_size
        updates = self.algo.batch_size * self.algo.update_counter * self.world_size
        logger.record_tabular("CumTime", self._cum_time)
        logger.record_tabular("LastTime", new_time - self._last_time - eval_time)
        logger.record_tabular("CumReplayRatio", updates / steps)
        self._last_time = new_time
        logger.dump_tabular(with_prefix=False)


class Rows(Hook):
    seen = []

    def on_log(self, runner, row):
        self.seen.append(row["CumReplayRatio"])


if __name__ == "__main__":
    sampler = CpuSampler(
        EnvCls=Walk,
        env_kwargs=dict(length=3),
        batch_T=5,
        batch_B=2,
        CollectorCls=StartingCollector,
        eval_CollectorCls=QueueingEvalCollector,
        eval_env_kwargs=dict(length=3),
        eval_n_envs=2,
        eval_max_steps=600,
        eval_max_trajectories=4,
    )
    runner = RetypedRunner(
        algo=A2C(),
        agent=PolicyAgent(),
        sampler=sampler,
        n_steps=40,
        log_interval_steps=20,
        hooks=[Rows()],
    )
    with logger_context("runs", "a", "retyped", {}, snapshot_mode="last", override_prefix=True):
        runner.train()
    assert [itr for itr, _ in runner.evaluated] == [0, 1, 3], runner.evaluated
    assert all(4 <= n <= 6 for _, n in runner.evaluated), runner.evaluated
    assert runner.longest > FIRST
    with open("runs/run_a/progress.csv") as f:
        rows = list(csv.DictReader(f))
    assert [float(row["CumReplayRatio"]) for row in rows] == Rows.seen == [0, 1, 1], rows
    assert 0 <= float(rows[-1]["LastTime"]) <= float(rows[-1]["CumTime"]) < 600, rows
