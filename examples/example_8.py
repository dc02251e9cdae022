"""Where the agent acts: one flag chooses among all synchronous samplers.

``serial`` does everything in this process; ``cpu`` has workers that act for themselves; ``gpu``
has workers that only step environments while this process acts for all of them, on the CPU or a
GPU; ``alternating`` splits those workers into two groups, one stepping while the other is
answered. Same seed, same batches up to rounding, in all of them (docs/sampling.md). Compare
StepsPerSecond: for a network as small as this one, ``cpu`` wins; the larger the network, the more
the served ones pay.

    python examples/example_8.py --sampler alternating
    python examples/example_8.py --sampler gpu --cuda-idx 0

Next: example_9.py, environments that come as a batch.
"""

import argparse

from rlpyt.agents.pg.vector import CategoricalLstmAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context

SAMPLERS = {
    "serial": SerialSampler,
    "cpu": CpuSampler,
    "gpu": GpuSampler,
    "alternating": AlternatingSampler,
    "no-overlap": NoOverlapAlternatingSampler,
}


def build_and_train(
    kind: str, n_steps: int, n_workers: int, cuda_idx: int | None, run_ID: int, log_dir: str
) -> None:
    """Put the parts together and run."""
    sampler = SAMPLERS[kind](
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=64,
        batch_B=8,
        eval_n_envs=4,
        eval_max_steps=8_000,
        eval_max_trajectories=8,
        eval_deterministic=True,  # the likeliest action, not a sampled one
    )
    runner = MinibatchRlEval(
        algo=PPO(learning_rate=1e-3, discount=0.98, gae_lambda=0.9, epochs=8),
        agent=CategoricalLstmAgent(),  # a recurrent agent needs no special class to alternate
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=n_workers, cuda_idx=cuda_idx, master_torch_threads=1),
        log_interval_steps=20_480,
    )
    with logger_context(log_dir, run_ID, f"cartpole_{kind}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sampler", choices=SAMPLERS, default="gpu", help="who acts where")
    parser.add_argument("--steps", type=int, default=102_400, help="environment steps")
    parser.add_argument("--n-workers", type=int, default=2, help="worker processes")
    parser.add_argument("--cuda-idx", type=int, help="GPU to act and train on; without: the CPU")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, in its path")
    parser.add_argument("--log-dir", default="example_8", help="directory; relative: below data/")
    args = parser.parse_args()
    build_and_train(
        args.sampler, args.steps, args.n_workers, args.cuda_idx, args.run_id, args.log_dir
    )
