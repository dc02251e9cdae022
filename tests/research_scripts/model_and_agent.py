"""A2C with a model and an agent written for the project."""

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(run_ID=0):
    sampler = SerialSampler(
        EnvCls=Walk, env_kwargs=dict(length=4), batch_T=5, batch_B=3, max_decorrelation_steps=0
    )
    runner = MinibatchRl(
        algo=A2C(learning_rate=1e-2),
        agent=PolicyAgent(model_kwargs=dict(hidden=8)),
        sampler=sampler,
        n_steps=150,
        log_interval_steps=60,
        affinity=dict(cuda_idx=None),
    )
    with logger_context("runs", run_ID, "a2c_walk", dict(length=4), override_prefix=True):
        runner.train()


if __name__ == "__main__":
    build_and_train()
