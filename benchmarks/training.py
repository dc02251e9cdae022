"""Measure agent steps per second of training: `python -m benchmarks.training --help`.

PPO: 8 environments x 128 steps, 4 epochs of 4 minibatches, the hyperparameters of `peers.PPO`
everywhere. DQN: one environment, an update with 32 transitions every 4 steps, the
hyperparameters of `peers.DQN`; with 4 environments x 16 steps, 16 updates after each 64.
SAC, TD3 and CrossQ: one environment, one update with 256 transitions per step, the
hyperparameters of `peers.CONTROL`. "start s" includes the first updates and compilation. The
steps until the mean return of the last 100 episodes reaches the target show that all contenders
learn; with one seed each they can reveal a fault, but not a difference.
"""

from __future__ import annotations

from typing import Any

from benchmarks import bare, harness
from benchmarks.harness import Contender, Setting
from benchmarks.peers import contender


def contenders(algo: str, task: dict[str, Any], rows: Any) -> tuple[Contender, ...]:
    """Return the rows of a table: name, library, options of the library and threads."""
    return tuple(
        contender(name, library, algo, threads, **task, **options)
        for name, library, options, threads in rows
    )


def cartpole() -> Setting:
    """Compare PPO on CartPole-v1, dominated by Python and small tensors."""
    compiled = {"n_workers": 2, "algo_kwargs": {"compile": "loss"}}
    rows = (
        ("hand-written, SyncVectorEnv", "hand_written", {}, 1),
        ("Stable-Baselines3, DummyVecEnv", "sb3", {}, 1),
        ("rlpyt SerialSampler", "rlpyt", {}, 1),
        ("rlpyt CpuSampler 2 workers", "rlpyt", {"n_workers": 2}, 1),
        ("rlpyt CpuSampler 2 workers, compiled", "rlpyt", compiled, 1),
    )
    task = {"env": "cartpole", "n_envs": 8, "train": True}
    return Setting("PPO CartPole-v1, 8 x 128", contenders("ppo", task, rows), target_return=400)


def pong() -> Setting:
    """Compare PPO on ALE Pong with the Nature network, dominated by convolutions."""
    bfloat16 = {"n_workers": 2, "algo_kwargs": {"mixed_precision": True}}
    rows = (
        ("hand-written, AtariVectorEnv", "hand_written", {}, 2),
        ("Stable-Baselines3, SubprocVecEnv", "sb3", {"subproc": True}, 2),
        ("rlpyt SerialSampler", "rlpyt", {}, 2),
        ("rlpyt CpuSampler 2 workers", "rlpyt", {"n_workers": 2}, 2),
        ("rlpyt CpuSampler 2 workers, bfloat16", "rlpyt", bfloat16, 2),
    )
    task = {"env": "pong", "n_envs": 8, "train": True}
    return Setting("PPO Pong, 8 x 128", contenders("ppo", task, rows), target_return=0)


def dqn(env: str, target_return: float, threads: tuple[int, ...] = (1,)) -> Setting:
    """Compare DQN in one environment, or in four with one step each per update."""
    at_once = {"n_envs": 4, "n_steps": 16}
    whole = {"compile": "update"}
    rows = (
        (name, library, options, n)
        for n in threads
        for name, library, options in (
            ("hand-written", "hand_written", {}),
            ("Stable-Baselines3", "sb3", {}),
            ("rlpyt SerialSampler", "rlpyt", {}),
            ("rlpyt SerialSampler, 4 environments", "rlpyt", {"n_envs": 4}),
            ("rlpyt SerialSampler, 4 x 16 steps", "rlpyt", at_once),
            ("rlpyt SerialSampler, compiled update", "rlpyt", whole),
            ("rlpyt SerialSampler, 4 x 16 steps, compiled update", "rlpyt", at_once | whole),
        )
    )
    return Setting(
        f"DQN {'CartPole-v1' if env == 'cartpole' else 'Pong'}, an update every 4 steps",
        contenders("dqn", {"env": env}, rows),
        target_return=target_return,
    )


def control(algo: str, threads: tuple[int, ...] = (1, 2)) -> Setting:
    """Compare SAC or TD3 on HalfCheetah-v5, dominated by 256 x 256 matrix products."""
    task = {"algo": algo}
    rows: list[Contender] = []
    for n in threads:
        libraries = (
            ("hand-written", "hand_written", {}, n),
            ("Stable-Baselines3", "sb3", {}, n),
            ("rlpyt SerialSampler", "rlpyt", {}, n),
            ("rlpyt SerialSampler, compiled losses", "rlpyt", {"compile": "loss"}, n),
            ("rlpyt SerialSampler, compiled update", "rlpyt", {"compile": "update"}, n),
            ("rlpyt SerialSampler, bfloat16", "rlpyt", {"mixed_precision": True}, n),
        )
        rows += contenders("control", task, libraries)
        rows.append(Contender("matrix products alone", bare.products_alone, task, n))
    return Setting(f"{algo.upper()} HalfCheetah-v5, an update every step", tuple(rows))


def crossq() -> Setting:
    """Compare CrossQ with critics of two layers of 256 units on HalfCheetah-v5."""
    rows = (
        ("Stable-Baselines3 Contrib", "sb3", {}, 1),
        ("rlpyt SerialSampler", "rlpyt", {}, 1),
        ("rlpyt SerialSampler, compiled update", "rlpyt", {"compile": "update"}, 1),
    )
    return Setting(
        "CrossQ HalfCheetah-v5, an update every step",
        contenders("control", {"algo": "crossq"}, rows),
    )


def pong_on_gpu() -> Setting:
    """Compare PPO on ALE Pong with 16 environments and the learner on the first CUDA device."""
    ours = {"n_workers": 8, "cuda_idx": 0}
    served = dict(ours, layout="gpu")
    bfloat16 = dict(served, algo_kwargs={"mixed_precision": True})
    compiled = dict(served, algo_kwargs={"compile": "loss"})
    rows = (
        ("Stable-Baselines3, SubprocVecEnv", "sb3", {"subproc": True, "device": "cuda"}, 1),
        ("rlpyt CpuSampler 8 workers", "rlpyt", ours, 1),
        ("rlpyt GpuSampler 8 workers", "rlpyt", served, 1),
        ("rlpyt AlternatingSampler 8 workers", "rlpyt", dict(ours, layout="alternating"), 1),
        ("rlpyt GpuSampler 8 workers, bfloat16", "rlpyt", bfloat16, 1),
        ("rlpyt GpuSampler 8 workers, compiled", "rlpyt", compiled, 1),
    )
    task = {"env": "pong", "n_envs": 16, "train": True}
    return Setting("PPO Pong, 16 x 128, one GPU", contenders("ppo", task, rows))


def control_on_gpu(algo: str) -> Setting:
    """Compare SAC or TD3 on HalfCheetah-v5 with the learner on the first CUDA device."""
    ours = {"cuda_idx": 0}
    rows = (
        ("Stable-Baselines3", "sb3", {"device": "cuda"}, 1),
        ("rlpyt SerialSampler", "rlpyt", ours, 1),
        ("rlpyt SerialSampler, compiled losses", "rlpyt", dict(ours, compile="loss"), 1),
        ("rlpyt SerialSampler, compiled update", "rlpyt", dict(ours, compile="update"), 1),
    )
    return Setting(
        f"{algo.upper()} HalfCheetah-v5, an update every step, one GPU",
        contenders("control", {"algo": algo}, rows),
    )


SETTINGS = {
    "cartpole": (cartpole(),),
    "pong": (pong(),),
    "dqn-cartpole": (dqn("cartpole", 200),),
    "dqn-pong": (dqn("pong", 0, (1, 2)),),
    "sac": (control("sac"),),
    "td3": (control("td3"),),
    "crossq": (crossq(),),
}
# Not among "all": they need a CUDA device.
ON_GPU = {"gpu-pong": (pong_on_gpu(),), "gpu-sac": (control_on_gpu("sac"),)}

if __name__ == "__main__":
    harness.main("training", SETTINGS, seconds=8.0, optional=ON_GPU)
