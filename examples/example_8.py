"""Compare the synchronous samplers.

``serial`` runs everything in this process; ``cpu`` has workers that compute their own actions;
``gpu`` has workers that only step environments while this process computes all actions, on the CPU
or a GPU; ``alternating`` splits these workers into two groups, one stepping while the other waits
for actions. The same seed gives the same batches in all of them, up to rounding (docs/sampling.md).
Compare StepsPerSecond: ``cpu`` is fastest for a network as small as this one; central acting is
better for large networks.

    python examples/example_8.py --sampler alternating
    python examples/example_8.py --sampler gpu --cuda-idx 0

Next: example_9.py, vector environments.
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
    """Build all parts and train."""
    sampler = SAMPLERS[kind](
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=64,
        batch_B=8,
        eval_n_envs=4,
        eval_max_steps=8_000,
        eval_max_trajectories=8,
        eval_deterministic=True,  # the most likely action, not a sampled one
    )
    runner = MinibatchRlEval(
        algo=PPO(learning_rate=1e-3, discount=0.98, gae_lambda=0.9, epochs=8),
        agent=CategoricalLstmAgent(),  # no special class is needed for alternating
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
    parser.add_argument("--sampler", choices=SAMPLERS, default="gpu", help="kind of sampler")
    parser.add_argument("--steps", type=int, default=102_400, help="environment steps")
    parser.add_argument("--n-workers", type=int, default=2, help="worker processes")
    parser.add_argument("--cuda-idx", type=int, help="GPU for acting and training; default: CPU")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_8", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(
        args.sampler, args.steps, args.n_workers, args.cuda_idx, args.run_id, args.log_dir
    )
