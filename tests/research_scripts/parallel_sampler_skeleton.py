"""Parallel samplers of the project, written on the private methods of the original's."""

import multiprocessing as mp

import numpy as np
from common import PolicyAgent, Walk, train_a2c

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.parallel.worker import initialize_worker, sampling_process
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.synchronize import drain_queue


class LongWalk(Walk):
    """Each worker's has another time limit, by an argument of the worker."""

    def __init__(self, length=5, rank=0):
        super().__init__(length=length, horizon=3 + rank)


class OwnInitialize(CpuSampler):
    """The original's ``initialize``, with the evaluation environments counted differently."""

    def initialize(self, agent, affinity, seed, bootstrap_value=False, traj_info_kwargs=None,
                   world_size=1, rank=0, worker_process=None):  # fmt: skip
        n_envs_list = self._get_n_envs_list(affinity=affinity)
        self.n_worker = n_worker = len(n_envs_list)
        B = self.batch_spec.B
        global_B = B * world_size
        env_ranks = list(range(rank * B, (rank + 1) * B))
        self.world_size = world_size
        self.rank = rank
        self.eval_n_envs_per = max(1, self.eval_n_envs // n_worker)
        self.eval_n_envs = self.eval_n_envs_per * n_worker
        self.eval_max_T = int(self.eval_max_steps // self.eval_n_envs)
        env = self.EnvCls(**self.env_kwargs)
        self._agent_init(agent, env, global_B=global_B, env_ranks=env_ranks)
        examples = self._build_buffers(env, bootstrap_value)
        env.close()
        del env
        self._build_parallel_ctrl(n_worker)
        if traj_info_kwargs:
            for k, v in traj_info_kwargs.items():
                setattr(self.TrajInfoCls, "_" + k, v)
        common_kwargs = self._assemble_common_kwargs(affinity, global_B)
        workers_kwargs = self._assemble_workers_kwargs(affinity, seed, n_envs_list)
        target = sampling_process if worker_process is None else worker_process
        self.workers = [
            mp.Process(target=target, kwargs=dict(common_kwargs=common_kwargs, worker_kwargs=w))
            for w in workers_kwargs
        ]
        for w in self.workers:
            w.start()
        self.ctrl.barrier_out.wait()
        return examples


def marking_process(common_kwargs, worker_kwargs):
    """A worker of the project: environments with its rank, and its own loop."""
    c, w = AttrDict(**common_kwargs), AttrDict(**worker_kwargs)
    initialize_worker(w.rank, w.seed, w.cpus, c.torch_threads)
    envs = [c.EnvCls(**c.env_kwargs, rank=w.rank) for _ in range(w.n_envs)]
    collector = c.CollectorCls(
        rank=w.rank, envs=envs, samples_np=w.samples_np, batch_T=c.batch_T,
        TrajInfoCls=c.TrajInfoCls, agent=c.get("agent", None), sync=w.get("sync", None),
        step_buffer_np=w.get("step_buffer_np", None), global_B=c.get("global_B", 1),
        env_ranks=w.get("env_ranks", None),
    )  # fmt: skip
    agent_inputs, traj_infos = collector.start_envs(c.max_decorrelation_steps)
    collector.start_agent()
    c.ctrl.barrier_out.wait()
    while True:
        collector.reset_if_needed(agent_inputs)
        c.ctrl.barrier_in.wait()
        if c.ctrl.quit.value:
            break
        agent_inputs, traj_infos, completed = collector.collect_batch(
            agent_inputs, traj_infos, c.ctrl.itr.value
        )
        for info in completed:
            info["Rank"] = w.rank
            c.traj_infos_queue.put(info)
        c.ctrl.barrier_out.wait()
    for env in envs:
        env.close()


class OwnProcess(CpuSampler):
    """Another worker, and a batch that it waits for itself."""

    def initialize(self, *args, **kwargs):
        return super().initialize(*args, worker_process=marking_process, **kwargs)

    def obtain_samples(self, itr):
        self.agent.sync_shared_memory()
        self.ctrl.itr.value = itr
        self.ctrl.barrier_in.wait()
        self.ctrl.barrier_out.wait()
        traj_infos = drain_queue(self.traj_infos_queue)
        ranks.update(info["Rank"] for info in traj_infos)
        return self.samples_pyt, traj_infos


class OwnHooks(GpuSampler):
    """Other arguments of the workers, and a buffer of its own."""

    def _get_n_envs_list(self, affinity=None, n_worker=None, B=None):
        n_envs_list = super()._get_n_envs_list(affinity=affinity, n_worker=n_worker, B=B)
        hooks.append(list(n_envs_list))
        return n_envs_list

    def _agent_init(self, agent, env, global_B=1, env_ranks=None):
        super()._agent_init(agent, env, global_B=global_B, env_ranks=env_ranks)
        hooks.append(env_ranks)

    def _build_buffers(self, env, bootstrap_value):
        examples = super()._build_buffers(env, bootstrap_value)
        hooks.append(self.step_buffer_np.reward.shape)
        return examples

    def _build_parallel_ctrl(self, n_worker):
        super()._build_parallel_ctrl(n_worker)
        self.sync.mark = mp.RawValue("i", 7)
        hooks.append(len(self.sync.obs_ready))

    def _assemble_common_kwargs(self, *args, **kwargs):
        common_kwargs = super()._assemble_common_kwargs(*args, **kwargs)
        common_kwargs["env_kwargs"] = dict(length=3, horizon=1)
        return common_kwargs

    def _assemble_workers_kwargs(self, affinity, seed, n_envs_list):
        workers_kwargs = super()._assemble_workers_kwargs(affinity, seed, n_envs_list)
        hooks.append([w["n_envs"] for w in workers_kwargs])
        return workers_kwargs


class Uneven(CpuSampler):
    """More environments in the first worker than in the second."""

    def _build_buffers(self, env, bootstrap_value):
        self.samples_pyt, self.samples_np, examples = build_samples_buffer(
            self.agent, env, self.batch_spec, bootstrap_value, agent_shared=True, env_shared=True,
            subprocess=True,
        )  # fmt: skip
        return examples


class MarkedInfo(TrajInfo):
    """Statistics with the worker's rank."""


class EveryStep(CpuResetCollector):
    """A collector with its own start."""

    def start_envs(self, max_decorrelation_steps=0):
        assert self.rank in (0, 1) and len(self.envs) == self.samples_np.env.reward.shape[1]
        return super().start_envs(max_decorrelation_steps)


ranks, hooks = set(), []
KWARGS = dict(EnvCls=Walk, env_kwargs=dict(length=3), batch_T=6, max_decorrelation_steps=2)
AFFINITY = dict(workers_cpus=[0, 1], set_affinity=False)


if __name__ == "__main__":
    sampler = OwnInitialize(
        **KWARGS, batch_B=4, eval_n_envs=2, eval_max_steps=60, eval_max_trajectories=4
    )
    runner = MinibatchRlEval(
        algo=A2C(), agent=PolicyAgent(), sampler=sampler, n_steps=72, affinity=AFFINITY,
        log_interval_steps=24,
    )  # fmt: skip
    runner.train()
    assert sampler.samples_np.env.observation.sum(-1).all()
    assert not any(w.is_alive() for w in sampler.workers)

    kwargs = KWARGS | dict(EnvCls=LongWalk, TrajInfoCls=MarkedInfo)
    train_a2c(OwnProcess(**kwargs, batch_B=2), n_steps=60)
    assert ranks == {0, 1}

    sampler = OwnHooks(**KWARGS, batch_B=2)
    train_a2c(sampler, n_steps=36)
    assert hooks == [[1, 1], [0, 1], (2,), 2, [1, 1]], hooks
    assert sampler.samples_np.env.done.all()  # horizon 1

    sampler = Uneven(**KWARGS, batch_B=3, CollectorCls=EveryStep)
    train_a2c(sampler, n_steps=36)
    assert np.isclose(sampler.samples_np.env.observation.sum(-1), 1).all()
    assert not mp.active_children()
