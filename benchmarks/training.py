"""Measure agent steps per second of training: `python -m benchmarks.training --help`.

PPO: 8 environments x 128 steps, 4 epochs of 4 minibatches, the hyperparameters of `peers.HYPER`
everywhere. DQN: one environment, an update with 32 transitions every 4 steps, the
hyperparameters of `dqn_peers.HYPER`; with 4 environments x 16 steps, 16 updates after each 64.
SAC and TD3: one environment, one update with 256 transitions per step, the hyperparameters of
`control_peers.HYPER`. "start s" includes the first updates and compilation. The steps until the
mean return of the last 100 episodes reaches the target show that all contenders learn; with one
seed each they can reveal a fault, but not a difference.
"""

from __future__ import annotations

from benchmarks import contenders, control_peers, dqn_peers, harness, peers
from benchmarks.harness import Contender, Setting


def cartpole() -> Setting:
    """Compare PPO on CartPole-v1, dominated by Python and small tensors."""
    task = {"env": "cartpole", "n_envs": 8, "train": True}
    return Setting(
        "PPO CartPole-v1, 8 x 128",
        (
            Contender("hand-written, SyncVectorEnv", peers.hand_written, task),
            Contender("Stable-Baselines3, DummyVecEnv", peers.stable_baselines3, task),
            Contender("rlpyt SerialSampler", contenders.ppo, task),
            Contender("rlpyt CpuSampler 2 workers", contenders.ppo, dict(task, n_workers=2)),
            Contender(
                "rlpyt CpuSampler 2 workers, compiled",
                contenders.ppo,
                dict(task, n_workers=2, algo_kwargs={"compile_loss": True}),
            ),
        ),
        target_return=400,
    )


def pong() -> Setting:
    """Compare PPO on ALE Pong with the Nature network, dominated by convolutions."""
    task = {"env": "pong", "n_envs": 8, "train": True}
    return Setting(
        "PPO Pong, 8 x 128",
        (
            Contender("hand-written, AtariVectorEnv", peers.hand_written, task, 2),
            Contender(
                "Stable-Baselines3, SubprocVecEnv",
                peers.stable_baselines3,
                dict(task, subproc=True),
                2,
            ),
            Contender("rlpyt SerialSampler", contenders.ppo, task, 2),
            Contender("rlpyt CpuSampler 2 workers", contenders.ppo, dict(task, n_workers=2), 2),
            Contender(
                "rlpyt CpuSampler 2 workers, bfloat16",
                contenders.ppo,
                dict(task, n_workers=2, algo_kwargs={"mixed_precision": True}),
                2,
            ),
        ),
        target_return=0,
    )


def dqn(env: str, target_return: float, threads: tuple[int, ...] = (1,)) -> Setting:
    """Compare DQN in one environment, or in four with one step each per update."""
    task = {"env": env}
    several = dict(task, n_envs=4)
    at_once = dict(several, n_steps=16)
    return Setting(
        f"DQN {'CartPole-v1' if env == 'cartpole' else 'Pong'}, an update every 4 steps",
        tuple(
            Contender(name, build, kwargs, n)
            for n in threads
            for name, build, kwargs in (
                ("hand-written", dqn_peers.hand_written, task),
                ("Stable-Baselines3", dqn_peers.stable_baselines3, task),
                ("rlpyt SerialSampler", dqn_peers.rlpyt, task),
                ("rlpyt SerialSampler, 4 environments", dqn_peers.rlpyt, several),
                ("rlpyt SerialSampler, 4 x 16 steps", dqn_peers.rlpyt, at_once),
                (
                    "rlpyt SerialSampler, 4 x 16 steps, compiled",
                    dqn_peers.rlpyt,
                    dict(at_once, compile_loss=True),
                ),
            )
        ),
        target_return=target_return,
    )


def control(algo: str, threads: tuple[int, ...] = (1, 2)) -> Setting:
    """Compare SAC or TD3 on HalfCheetah-v5, dominated by 256 x 256 matrix products."""
    task = {"algo": algo}
    return Setting(
        f"{algo.upper()} HalfCheetah-v5, an update every step",
        tuple(
            Contender(name, build, kwargs, n)
            for n in threads
            for name, build, kwargs in (
                ("hand-written", control_peers.hand_written, task),
                ("Stable-Baselines3", control_peers.stable_baselines3, task),
                ("rlpyt SerialSampler", control_peers.rlpyt, task),
                (
                    "rlpyt SerialSampler, compiled",
                    control_peers.rlpyt,
                    dict(task, compile_loss=True),
                ),
                (
                    "rlpyt SerialSampler, bfloat16",
                    control_peers.rlpyt,
                    dict(task, mixed_precision=True),
                ),
                ("matrix products alone", control_peers.products_alone, task),
            )
        ),
    )


def pong_on_gpu() -> Setting:
    """Compare PPO on ALE Pong with 16 environments and the learner on the first CUDA device."""
    task = {"env": "pong", "n_envs": 16, "train": True}
    ours = dict(task, n_workers=8, cuda_idx=0)
    served = dict(ours, layout="gpu")
    return Setting(
        "PPO Pong, 16 x 128, one GPU",
        (
            Contender(
                "Stable-Baselines3, SubprocVecEnv",
                peers.stable_baselines3,
                dict(task, subproc=True, device="cuda"),
            ),
            Contender("rlpyt CpuSampler 8 workers", contenders.ppo, ours),
            Contender("rlpyt GpuSampler 8 workers", contenders.ppo, served),
            Contender(
                "rlpyt AlternatingSampler 8 workers",
                contenders.ppo,
                dict(ours, layout="alternating"),
            ),
            Contender(
                "rlpyt GpuSampler 8 workers, bfloat16",
                contenders.ppo,
                dict(served, algo_kwargs={"mixed_precision": True}),
            ),
            Contender(
                "rlpyt GpuSampler 8 workers, compiled",
                contenders.ppo,
                dict(served, algo_kwargs={"compile_loss": True}),
            ),
        ),
    )


def control_on_gpu(algo: str) -> Setting:
    """Compare SAC or TD3 on HalfCheetah-v5 with the learner on the first CUDA device."""
    ours = {"algo": algo, "cuda_idx": 0}
    return Setting(
        f"{algo.upper()} HalfCheetah-v5, an update every step, one GPU",
        (
            Contender(
                "Stable-Baselines3",
                control_peers.stable_baselines3,
                {"algo": algo, "device": "cuda"},
            ),
            Contender("rlpyt SerialSampler", control_peers.rlpyt, ours),
            Contender(
                "rlpyt SerialSampler, compiled",
                control_peers.rlpyt,
                dict(ours, compile_loss=True),
            ),
        ),
    )


SETTINGS = {
    "cartpole": (cartpole(),),
    "pong": (pong(),),
    "dqn-cartpole": (dqn("cartpole", 200),),
    "dqn-pong": (dqn("pong", 0, (1, 2)),),
    "sac": (control("sac"),),
    "td3": (control("td3"),),
}
# Not among "all": they need a CUDA device.
ON_GPU = {"gpu-pong": (pong_on_gpu(),), "gpu-sac": (control_on_gpu("sac"),)}

if __name__ == "__main__":
    harness.main("training", SETTINGS, seconds=8.0, optional=ON_GPU)
