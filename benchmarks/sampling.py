"""Agent steps per second of sampling with a policy: `python -m benchmarks.sampling --help`.

T=128, sampled actions; observation, action, reward, done, distribution or log-probability and
value are recorded at every step.
"""

from __future__ import annotations

from benchmarks import bare, contenders, harness, peers
from benchmarks.harness import Contender, Setting


def cartpole(n_envs: int) -> Setting:
    """CartPole-v1 with two 64x64 tanh towers (rlpyt's own model of that size)."""
    task = {"env": "cartpole", "n_envs": n_envs, "train": False}
    torch_only = dict(task, agent_kwargs={"fast_acting": False})
    return Setting(
        f"CartPole-v1, {n_envs} envs, MLP 64x64",
        (
            Contender("hand-written, SyncVectorEnv", peers.hand_written, task),
            Contender(
                "Stable-Baselines3, DummyVecEnv",
                peers.stable_baselines3,
                task,
                note="includes its GAE loop",
            ),
            Contender("rlpyt SerialSampler, torch acting", contenders.ppo, torch_only),
            Contender("rlpyt SerialSampler", contenders.ppo, task),
            Contender(
                "rlpyt CpuSampler 2 workers, torch acting",
                contenders.ppo,
                dict(torch_only, n_workers=2),
            ),
            Contender("rlpyt CpuSampler 2 workers", contenders.ppo, dict(task, n_workers=2)),
            Contender(
                "bare loop, 1 process",
                bare.bare_loop,
                {"n_envs": n_envs, "n_processes": 1},
                note="torch acting and arrays, nothing else: what the machine allows",
            ),
            Contender(
                "bare loop, 2 processes",
                bare.bare_loop,
                {"n_envs": n_envs, "n_processes": 2},
                note="the same in two free-running processes",
            ),
            Contender(
                "env.step alone",
                peers.env_alone,
                {"env": "cartpole", "n_envs": n_envs},
                note="no policy, one process: what the simulator costs",
            ),
        ),
    )


def pong(n_envs: int) -> Setting:
    """ALE Pong, four 84x84 frames, Nature network."""
    task = {"env": "pong", "n_envs": n_envs, "train": False}
    return Setting(
        f"Pong, {n_envs} envs, Nature CNN",
        (
            Contender("hand-written, AtariVectorEnv", peers.hand_written, task),
            Contender("hand-written, AtariVectorEnv, 2 threads", peers.hand_written, task, 2),
            Contender(
                "Stable-Baselines3, DummyVecEnv",
                peers.stable_baselines3,
                task,
                2,
                note="includes its GAE loop",
            ),
            Contender(
                "Stable-Baselines3, SubprocVecEnv",
                peers.stable_baselines3,
                dict(task, subproc=True),
                note="includes its GAE loop",
            ),
            Contender("rlpyt SerialSampler", contenders.ppo, task, 2),
            Contender("rlpyt CpuSampler 2 workers", contenders.ppo, dict(task, n_workers=2)),
            Contender(
                "AtariVectorEnv alone",
                peers.env_alone,
                {"env": "pong", "n_envs": n_envs},
                note="no policy, all cores: what the emulator costs",
            ),
        ),
    )


SETTINGS = {"cartpole": (cartpole(8), cartpole(32)), "pong": (pong(8),)}

if __name__ == "__main__":
    harness.main("sampling", SETTINGS, seconds=4.0)
