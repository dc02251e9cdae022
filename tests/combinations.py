"""The product of memories, masks, spaces, algorithms and samplers, and small runs of each."""

from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from rlpyt.experiments.api import options_of
from tests.combined_env import CombinedEnv

T, B, N_ITR = 4, 4, 3
ATTENTION = dict(window=2, num_layers=1, num_heads=2)
AXES = dict(
    memory=("none", "lstm", "gru", "mingru", "gtrxl"),
    mask=(False, True),
    action=("discrete", "multi_discrete", "multi_binary", "box", "hybrid"),
    observation=("vector", "image", "dict"),
    algo=("ppo", "a2c", "vtrace", "dqn", "catdqn", "qrdqn", "iqn", "sac", "td3", "ddpg"),
    sampler=("serial", "cpu", "gpu", "alternating", "asynchronous"),
)
AXIS = {name: i for i, name in enumerate(AXES)}
ON_POLICY, Q_LEARNING = ("ppo", "a2c", "vtrace"), ("dqn", "catdqn", "qrdqn", "iqn")
KINDS = {
    **{algo: algo for algo in AXES["algo"]},
    **dict.fromkeys(("ppo", "a2c"), "on-policy"),
    **dict.fromkeys(Q_LEARNING, "q-learning"),
    **dict.fromkeys(("td3", "ddpg"), "deterministic"),
}


class Cell(NamedTuple):
    """One combination, with a value of each of ``AXES``."""

    memory: str
    mask: bool
    action: str
    observation: str
    algo: str
    sampler: str

    def __str__(self):
        values = ["mask" if x is True else "all" if x is False else x for x in self]
        return "-".join(values)


def refusal(cell: Cell) -> str | None:
    """Return the error of a combination without meaning; ``None``: it runs."""
    if cell.algo in Q_LEARNING and cell.action != "discrete":
        return "Discrete action space"
    if cell.sampler == "asynchronous" and cell.algo in ("ppo", "a2c"):
        return "learn asynchronously"
    if cell.algo in ("td3", "ddpg") and cell.action != "box":
        return "continuous Box"
    if cell.mask and cell.action == "box":
        return "discrete actions"
    return None


ALL = [Cell(*values) for values in product(*AXES.values())]
CELLS = [cell for cell in ALL if refusal(cell) is None]


def covering(cells: list[Cell]) -> list[Cell]:
    """Return some of the cells, in which every pair of values occurs.

    Pairs with an algorithm count by kind of algorithm, and every algorithm occurs. Greedy: the next
    cell is the first with the most pairs that are still missing.
    """
    rows = [(*cell, KINDS[cell.algo]) for cell in cells]
    algo = AXIS["algo"]  # beside the kind, which is the last column
    skipped = {(min(i, algo), max(i, algo)) for i in range(len(AXES)) if i != algo}
    pairs = [pair for pair in combinations(range(len(rows[0])), 2) if pair not in skipped]
    ids, first = np.empty((len(rows), len(pairs)), int), 0
    for column, (i, j) in enumerate(pairs):
        values = [(row[i], row[j]) for row in rows]
        known = {value: first + n for n, value in enumerate(dict.fromkeys(values))}
        ids[:, column], first = [known[value] for value in values], first + len(known)
    missing, chosen = np.ones(first, bool), []
    while missing.any():
        chosen.append(int(missing[ids].sum(1).argmax()))
        missing[ids[chosen[-1]]] = False
    return [cells[i] for i in sorted(chosen)]


REPLAY = dict(
    batch_size=8, min_steps_learn=T * B, replay_size=8 * T * B, replay_ratio=0.5, n_step_return=2
)
SEQUENCES = dict(  # with memory
    batch_T=2, batch_B=4, warmup_T=1, store_rnn_state_interval=2, replay_ratio=0.75, n_step_return=1
)
ALGO = dict(
    ppo=dict(epochs=2, minibatches=2),
    iqn=dict(n_tau=4, n_tau_target=4),
)
AGENT_ARGS = dict(
    catdqn=dict(n_atoms=5), rainbow=dict(n_atoms=5), qrdqn=dict(n_quantiles=5),
    iqn=dict(n_act_quantiles=4),
)  # fmt: skip
CONVOLUTIONS = dict(channels=[4], kernel_sizes=[3], strides=[2], paddings=[0])
GROUPS = dict(policy_observation=["at", "inner.kind"], critic_observation=["at", "inner.image"])
VARIANTS = {  # algorithm, its settings, and those of the agent
    "redq": ("sac", dict(n_target_critics=2), dict(args=dict(n_critics=3))),
    "tqc": ("sac", dict(n_drop_quantiles=1), dict(args=dict(q_model_kwargs=dict(n_quantiles=3)))),
    "groups_ppo": ("ppo", {}, GROUPS),
    "groups_own_ppo": ("ppo", {}, dict(GROUPS, critic_memory="own")),
    "groups_none_vtrace": ("vtrace", {}, dict(GROUPS, critic_memory="none")),
    "groups_sac": ("sac", {}, GROUPS),
    "groups_td3": ("td3", {}, GROUPS),
}
# Cells with values that are not in ``AXES``, the first of which are in the fast tests.
N_FAST_EXTRA = 5
EXTRA = [
    Cell("none", True, "discrete", "dict", "rainbow", "cpu"),
    Cell("ln_lstm", True, "discrete", "dict", "r2d1", "alternating"),
    Cell("gru", True, "hybrid", "dict", "groups_sac", "asynchronous"),
    Cell("gru", False, "hybrid", "dict", "groups_none_vtrace", "asynchronous"),
    Cell("none", True, "hybrid", "dict", "redq", "serial"),
    Cell("gru", False, "discrete", "vector", "rainbow", "asynchronous"),
    Cell("lstm", False, "discrete", "image", "r2d1", "serial"),
    Cell("gru", True, "discrete", "vector", "r2d1", "asynchronous"),
    Cell("none", False, "box", "dict", "sac_v", "cpu"),
    Cell("gru", False, "box", "vector", "sac_v", "asynchronous"),
    Cell("gru", False, "box", "vector", "redq", "gpu"),
    Cell("none", False, "box", "vector", "tqc", "asynchronous"),
    Cell("lstm", False, "box", "dict", "tqc", "cpu"),
    Cell("ln_lstm", True, "hybrid", "dict", "ppo", "cpu"),
    Cell("ln_lstm", False, "box", "image", "vtrace", "asynchronous"),
    Cell("ln_lstm", True, "discrete", "vector", "dqn", "alternating"),
    Cell("ln_lstm", False, "box", "dict", "td3", "serial"),
    Cell("none", True, "multi_discrete", "dict", "groups_ppo", "gpu"),
    Cell("mingru", True, "hybrid", "dict", "groups_ppo", "alternating"),
    Cell("gtrxl", False, "box", "dict", "groups_own_ppo", "cpu"),
    Cell("none", False, "box", "dict", "groups_td3", "cpu"),
    Cell("lstm", False, "box", "dict", "groups_td3", "asynchronous"),
]


def env_args(cell: Cell):
    """Return the arguments of ``CombinedEnv``."""
    return dict(observation=cell.observation, action=cell.action, masked=cell.mask)


def options(cell: Cell):
    """Return the options of a run of ``N_ITR`` iterations with small networks."""
    name, more_algo, more_agent = VARIANTS.get(cell.algo, (cell.algo, {}, {}))
    algo = {**ALGO.get(name, {}), **more_algo}
    args = AGENT_ARGS.get(name, {})
    agent = dict(memory=cell.memory, hidden_sizes=[8], **{"args": args, **more_agent})
    if name not in ON_POLICY:
        algo.update(REPLAY)
    if cell.memory != "none":
        agent.update(memory_size=8)
        algo.update({} if name in ON_POLICY else SEQUENCES)
        if name == "r2d1":  # its batches have the size of sequences alone
            del algo["batch_size"]
    if cell.memory == "gtrxl":
        agent.update(memory_args=ATTENTION)
    alone = cell.observation == "image" and not cell.mask
    for_images = (*ON_POLICY, *Q_LEARNING, "rainbow", "r2d1")
    if alone and cell.action == "discrete" and name in for_images:
        agent.update(model=CONVOLUTIONS)  # of the agents for images alone
    elif cell.observation != "vector":
        agent.update(model=dict(encoder=dict(feature_size=8, **CONVOLUTIONS)))
    asynchronous = cell.sampler == "asynchronous"
    sampler = dict(
        kind="serial" if asynchronous else cell.sampler, asynchronous=asynchronous,
        batch_T=T, batch_B=B, max_decorrelation_steps=2, deterministic_acting=True,
        **(dict(max_lead=0) if asynchronous else {}),
    )  # fmt: skip
    return options_of(
        name, CombinedEnv, agent=agent, algo=algo, sampler=sampler, env_args=env_args(cell),
        steps=N_ITR * T * B, checkpoint_interval_steps=2 * T * B, eval_episodes=0, video=False,
    )  # fmt: skip
