"""Samplers of one's own with rlpyt's action servers as mixins, and workers that they fork."""

import ctypes
import multiprocessing as mp

import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
)
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector, GpuResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler, build_step_buffer
from rlpyt.utils.collections import AttrDict

T, B, N_WORKERS = 5, 4, 2
FORK = mp.get_context("fork")
each = B // N_WORKERS


def work(sampler, rank, pipe):
    rows = slice(rank * each, (rank + 1) * each)
    sync = AttrDict(
        obs_ready=sampler.sync.obs_ready[rank], act_ready=sampler.sync.act_ready[rank],
        stop_eval=sampler.sync.stop_eval,
    )  # fmt: skip
    envs = [CountEnv(rank=b, length=3) for b in range(B)[rows]]
    collector = sampler.CollectorCls(
        rank=rank, envs=envs, samples_np=sampler.samples_np[:, rows], batch_T=T, sync=sync,
        TrajInfoCls=sampler.TrajInfoCls, step_buffer_np=sampler.step_buffer_np[rows],
    )  # fmt: skip
    evaluation = sampler.eval_CollectorCls(
        rank=rank, envs=envs, TrajInfoCls=sampler.TrajInfoCls, sync=sync, max_T=sampler.eval_max_T,
        traj_infos_queue=sampler.eval_traj_infos_queue,
        step_buffer_np=sampler.eval_step_buffer_np[rows],
    )  # fmt: skip
    agent_inputs, traj_infos = collector.start_envs(0)
    while (command := pipe.recv()) is not None:
        finished = []
        if command == "evaluate":
            evaluation.collect_evaluation(0)
        else:
            results = collector.collect_batch(agent_inputs, traj_infos, 0)
            agent_inputs, traj_infos, finished = results
        pipe.send(finished)


class HomemadeGpuSampler(BaseSampler):
    def initialize(
        self, agent, affinity, seed, bootstrap_value, traj_info_kwargs, rank, world_size
    ):
        self.agent, env = agent, CountEnv()
        agent.initialize(env.spaces, share_memory=False, global_B=B, env_ranks=list(range(B)))
        self.samples_pyt, self.samples_np, examples = build_samples_buffer(
            agent, env, self.batch_spec, bootstrap_value
        )
        self.step_buffer_pyt, self.step_buffer_np = build_step_buffer(examples, B)
        _, self.eval_step_buffer_np = build_step_buffer(examples, B)
        self.sync = AttrDict(
            obs_ready=[FORK.Semaphore(0) for _ in range(N_WORKERS)],
            act_ready=[FORK.Semaphore(0) for _ in range(N_WORKERS)],
            stop_eval=FORK.RawValue(ctypes.c_bool, False),
        )
        self.eval_max_T = self.eval_max_steps
        self.eval_traj_infos_queue = FORK.Queue()
        self.workers, self.pipes = [], []
        for i in range(N_WORKERS):
            ours, theirs = FORK.Pipe()
            worker = FORK.Process(target=work, args=(self, i, theirs), daemon=True)
            worker.start()
            self.workers.append(worker)
            self.pipes.append(ours)
        return examples

    def command(self, what, serve):
        for pipe in self.pipes:
            pipe.send(what)
        served = serve(0)
        return served, [info for pipe in self.pipes for info in pipe.recv()]

    def obtain_samples(self, itr):
        return self.samples_pyt, self.command("collect", self.serve_actions)[1]

    def evaluate_agent(self, itr):
        finished, _ = self.command("evaluate", self.serve_actions_evaluation)
        open_ = N_WORKERS  # every worker ends with a sentinel
        while open_:
            info = self.eval_traj_infos_queue.get(timeout=60)
            open_ -= info is None
            finished += [] if info is None else [info]
        self.n_evaluated = len(finished)
        return finished

    def shutdown(self):
        for pipe, worker in zip(self.pipes, self.workers, strict=True):
            pipe.send(None)
            worker.join()
            assert worker.exitcode == 0


@pytest.mark.parametrize("enough", [None, 4])
@pytest.mark.parametrize(
    "Server", [ActionServer, AlternatingActionServer, NoOverlapAlternatingActionServer]
)
def test_a_custom_sampler_serves_its_workers_by_a_mixin(Server, enough):
    class Sampler(Server, HomemadeGpuSampler):
        pass

    # Finished episodes come by a thread of the worker's: 30 steps may be over before the first.
    max_steps = 30 if enough is None else 30_000
    sampler = Sampler(
        CountEnv, {}, T, B, CollectorCls=GpuResetCollector, eval_CollectorCls=GpuEvalCollector,
        eval_n_envs=B, eval_max_steps=max_steps, eval_max_trajectories=enough,
    )  # fmt: skip
    runner = MinibatchRlEval(
        algo=A2C(), agent=CategoricalMlpAgent(), sampler=sampler, n_steps=3 * T * B, seed=1,
        log_interval_steps=3 * T * B,
    )  # fmt: skip
    runner.train()
    samples = sampler.samples_pyt
    assert samples.env.observation[0, :, 0].tolist() == [0, 1, 2, 3]
    assert samples.agent.bootstrap_value.abs().sum() > 0
    with torch.no_grad():  # what was recorded is of the agent as it was for this batch
        assert samples.agent.agent_info.dist_info.prob.sum(-1).allclose(torch.ones(T, B))
    # Episodes of 1, 2, 3 steps in 4 environments, unless 4 episodes are enough.
    every = 4 * max_steps // 2
    assert sampler.n_evaluated == every if enough is None else 4 <= sampler.n_evaluated < every


def test_a_served_sampler_calls_an_overridden_serve_actions():
    class Own(ActionServer, GpuSampler):
        served = ()

        def serve_actions(self, itr):
            super().serve_actions(itr)
            self.served += (itr,)

    sampler = Own(CountEnv, {}, batch_T=2, batch_B=2)
    sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=1), seed=1)
    for itr in range(2):
        sampler.obtain_samples(itr)
    assert sampler.served == (0, 1)
    sampler.shutdown()


@pytest.mark.parametrize("Base", [GpuSampler, AlternatingSampler])
def test_a_served_sampler_calls_an_overridden_serve_actions_evaluation(Base):
    class Own(Base):
        served = ()

        def serve_actions_evaluation(self, itr):
            finished = super().serve_actions_evaluation(itr)
            self.served += (itr,)
            return finished

    sampler = Own(
        CountEnv, dict(length=3, fixed=True), batch_T=4, batch_B=2, eval_n_envs=2,
        eval_max_steps=24, max_decorrelation_steps=0,
    )  # fmt: skip
    sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=2), seed=1)
    try:
        samples, _ = sampler.obtain_samples(0)
        assert samples.env.done[2].all() and not samples.env.done[:2].any()
        lengths = [info.Length for info in sampler.evaluate_agent(5)]
        assert (sampler.served, lengths) == ((5,), [3] * 8)
        workers = sampler.workers
    finally:
        sampler.shutdown()
    assert not any(worker.is_alive() for worker in workers)
