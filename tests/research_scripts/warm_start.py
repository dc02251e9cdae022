"""Train, load the snapshot, and start again from its parameters and optimizer."""

import torch
from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def train(run_ID, agent_state=None, optim_state=None):
    agent = PolicyAgent(initial_model_state_dict=agent_state)
    runner = MinibatchRl(
        algo=A2C(initial_optim_state_dict=optim_state),
        agent=agent,
        sampler=SerialSampler(Walk, {}, batch_T=5, batch_B=2),
        n_steps=30,
        log_interval_steps=10,
        seed=run_ID,
    )
    with logger_context("runs", run_ID, "warm", {}, snapshot_mode="last", override_prefix=True):
        runner.train()
    return torch.load(f"runs/run_{run_ID}/params.pkl")


if __name__ == "__main__":
    first = train(1)
    names = {"agent_state_dict", "cum_steps", "itr", "optimizer_state_dict"}
    assert names <= first.keys(), sorted(first)
    second = train(2, first["agent_state_dict"], first["optimizer_state_dict"])
    steps = [
        state["step"]
        for snapshot in (first, second)
        for state in snapshot["optimizer_state_dict"]["state"].values()
    ]
    assert max(steps) == 2 * min(steps)
