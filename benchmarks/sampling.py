"""Measure agent steps per second of sampling: `python -m benchmarks.sampling --help`.

With a policy (cartpole, masks, pong, pong16): T=128, sampled actions; observation, action, reward,
done, distribution or log-probability and value are recorded at every step. Without one (step-*,
vector, gates): predetermined actions, to measure the cost of stepping, recording and
synchronization.
"""

from __future__ import annotations

from typing import Any

from benchmarks import bare, harness, stepping
from benchmarks.harness import Contender, Setting
from benchmarks.peers import contender


def cartpole(n_envs: int) -> Setting:
    """Compare sampling on CartPole-v1 with two 64x64 tanh MLPs (rlpyt's model of that size)."""
    task = {"env": "cartpole", "n_envs": n_envs, "train": False}
    in_torch = {"agent_kwargs": {"fast_acting": False}}
    return Setting(
        f"CartPole-v1, {n_envs} envs, MLP 64x64",
        (
            contender("hand-written, SyncVectorEnv", "hand_written", "ppo", **task),
            contender(
                "Stable-Baselines3, DummyVecEnv", "sb3", "ppo", note="includes its GAE loop", **task
            ),
            *(
                contender(f"rlpyt {name}", "rlpyt", "ppo", **task, **how)
                for name, how in (
                    ("SerialSampler, torch acting", in_torch),
                    ("SerialSampler", {}),
                    ("CpuSampler 2 workers, torch acting", {"n_workers": 2, **in_torch}),
                    ("CpuSampler 2 workers", {"n_workers": 2}),
                )
            ),
            *(
                Contender(name, bare.bare_loop, {"n_envs": n_envs, "n_processes": n}, note=note)
                for name, n, note in (
                    ("bare loop, 1 process", 1,
                     "torch acting and arrays, nothing else: what the machine allows"),
                    ("bare loop, 2 processes", 2, "the same in two free-running processes"),
                )
            ),
            Contender(
                "env.step alone",
                bare.env_alone,
                {"env": "cartpole", "n_envs": n_envs},
                note="no policy, one process: what the simulator costs",
            ),
        ),
    )  # fmt: skip


def masks(n_envs: int) -> Setting:
    """Measure the cost of a mask of valid actions beside an empty info and any other array."""
    return Setting(
        f"CartPole-v1 with masks, {n_envs} envs",
        tuple(
            contender(
                f"rlpyt SerialSampler, {kind} in info",
                "rlpyt",
                "ppo",
                env=f"cartpole:{kind}",
                n_envs=n_envs,
                train=False,
            )
            for kind in ("nothing", "array", "mask")
        ),
    )


def pong(n_envs: int) -> Setting:
    """Compare sampling on ALE Pong with four 84x84 frames and the Nature network."""
    task = {"env": "pong", "n_envs": n_envs, "train": False}
    gae = "includes its GAE loop"
    return Setting(
        f"Pong, {n_envs} envs, Nature CNN",
        (
            *(
                contender(name, library, "ppo", threads, note, **task, **how)
                for name, library, threads, note, how in (
                    ("hand-written, AtariVectorEnv", "hand_written", 1, "", {}),
                    ("hand-written, AtariVectorEnv, 2 threads", "hand_written", 2, "", {}),
                    ("Stable-Baselines3, DummyVecEnv", "sb3", 2, gae, {}),
                    ("Stable-Baselines3, SubprocVecEnv", "sb3", 1, gae, {"subproc": True}),
                    ("rlpyt SerialSampler", "rlpyt", 2, "", {}),
                    ("rlpyt CpuSampler 2 workers", "rlpyt", 1, "", {"n_workers": 2}),
                )
            ),
            Contender(
                "AtariVectorEnv alone",
                bare.env_alone,
                {"env": "pong", "n_envs": n_envs},
                note="no policy, all cores: what the emulator costs",
            ),
        ),
    )


def pong16() -> Setting:
    """Compare samplers on Pong, where the network is about as slow as the emulator."""
    task = {"env": "pong", "n_envs": 16, "train": False, "n_workers": 2}
    return Setting(
        "Pong, 16 envs, Nature CNN",
        tuple(
            contender(f"rlpyt {name}", "rlpyt", "ppo", threads, **{**task, **how})
            for name, how, threads in (
                ("GpuSampler 2 workers", {"layout": "gpu"}, 1),
                ("SerialSampler", {"n_workers": 0}, 2),
                ("CpuSampler 2 workers", {}, 1),
                ("GpuSampler 2 workers, 2 threads", {"layout": "gpu"}, 2),
                ("AlternatingSampler 2 workers", {"layout": "alternating"}, 1),
                ("AlternatingSampler 4 workers", {"layout": "alternating", "n_workers": 4}, 1),
                ("NoOverlapAlternatingSampler 2 workers", {"layout": "no-overlap"}, 1),
                (
                    "NoOverlapAlternatingSampler 4 workers",
                    {"layout": "no-overlap", "n_workers": 4},
                    1,
                ),
            )
        ),
    )


def stepping_of(env: str, n_envs: int, natives: tuple[str, ...]) -> Setting:
    """Compare stepping with random actions: rlpyt records all data, the others nothing."""
    task: dict[str, Any] = {"env": env, "n_envs": n_envs}
    return Setting(
        f"{stepping.IDS[env]}, {n_envs} envs, no network",
        (
            Contender("two free processes, nothing recorded", stepping.free_workers, task),
            Contender("one-process loop, nothing recorded", stepping.one_process, task),
            Contender("gymnasium AsyncVectorEnv", stepping.gymnasium_async, task),
            Contender("Stable-Baselines3 SubprocVecEnv", stepping.sb3_subproc, task),
            *(Contender(f"{source} alone", stepping.native, dict(task, source=source), 2)
              for source in natives),
            Contender("rlpyt SerialSampler", stepping.sampler, dict(task, layout="serial")),
            Contender("rlpyt CpuSampler 2 workers", stepping.sampler, dict(task, layout="cpu")),
            Contender("rlpyt GpuSampler 2 workers", stepping.sampler, dict(task, layout="gpu")),
            Contender(
                "rlpyt AlternatingSampler 2 workers",
                stepping.sampler,
                dict(task, layout="alternating"),
            ),
            *(Contender(f"rlpyt CpuSampler 2 workers, {source}", stepping.sampler,
                        dict(task, layout="cpu", source=source)) for source in natives),
        ),
    )  # fmt: skip


def vector_block(source: str, env: str, n_envs: int) -> Setting:
    """Measure the overhead of a vector block over its source."""
    task = {"source": source, "env": env, "n_envs": n_envs}
    sampled = {"env": env, "n_envs": n_envs, "source": source, "layout": "serial"}
    return Setting(
        f"{source} {stepping.IDS[env]}, {n_envs} envs",
        (
            Contender(f"{source} alone", stepping.native, task, 2),
            Contender("rlpyt vector block over it", stepping.block, task, 2),
            Contender("rlpyt SerialSampler over it", stepping.sampler, sampled, 2),
        ),
    )


def gates() -> Setting:
    """Measure the cost of a gate per step and worker, with environments that do nothing."""
    task = {"env": "nothing", "n_envs": 2}
    return Setting(
        "environments that do nothing, 2 envs",
        tuple(
            Contender(f"rlpyt {name}", stepping.sampler, dict(task, layout=layout))
            for name, layout in (
                ("CpuSampler 2 workers, no gates", "cpu"),
                ("GpuSampler 2 workers", "gpu"),
                ("AlternatingSampler 2 workers", "alternating"),
                ("NoOverlapAlternatingSampler 2 workers", "no-overlap"),
            )
        ),
    )


SETTINGS = {
    "cartpole": (cartpole(8), cartpole(32)),
    "masks": (masks(8),),
    "pong": (pong(8),),
    "pong16": (pong16(),),
    "step-cartpole": (stepping_of("cartpole", 32, ("gymnasium", "envpool")),),
    "step-halfcheetah": (stepping_of("halfcheetah", 8, ("envpool",)),),
    "step-pong": (stepping_of("pong", 8, ("envpool", "ale")),),
    "vector": (
        vector_block("gymnasium", "cartpole", 128),
        vector_block("envpool", "cartpole", 128),
        vector_block("ale", "pong", 128),
    ),
    "gates": (gates(),),
}

if __name__ == "__main__":
    harness.main("sampling", SETTINGS, seconds=4.0)
