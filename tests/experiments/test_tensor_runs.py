"""Runs in tensor environments after training: their agents act in environments of one row."""

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.utils._pytree import tree_map

import rlpyt
from rlpyt.agents.pg.vector import GaussianMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.cli.main import main
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.tensor_sampler import TensorSampler
from rlpyt.utils.logging.context import logger_context
from tests.tensor_envs import Images, Reach


class Places(Reach):
    """``Reach`` whose actions and observed corner are categories that count from 1."""

    single_action_space = spaces.Discrete(4, start=1)
    single_observation_space = spaces.Dict(
        {"place": spaces.Box(-np.inf, np.inf, (2,)), "corner": spaces.Discrete(4, start=1)}
    )

    def get_observations(self) -> Any:
        right = (self.place > 0).long()
        return {"place": self.place, "corner": 1 + right[:, 0] + 2 * right[:, 1]}

    def step(self, actions: torch.Tensor) -> Any:
        assert actions.min() >= 1 and actions.max() <= 4
        return super().step(Images.moves[actions - 1])


def untold(num_envs: int) -> Any:
    """Return a ``Reach``, as a function that does not tell."""
    return Reach(num_envs)


class Single(gymnasium.Env[Any, Any]):
    """An environment with the spaces of ``Reach``, whose episodes are one step."""

    observation_space = action_space = spaces.Box(-np.inf, np.inf, (2,))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 3.0, True, False, {}


def return_by_hand(run: Any, Env: Any, seed: int) -> float:
    """Return the return of the first episode of a seed, without the class under test."""
    envs, total = Env(1), 0.0
    envs.seed(seed)
    observation = envs.reset()
    run.reset()
    for _ in range(10):
        row = tree_map(lambda x: x[0].numpy(), observation)
        action = torch.as_tensor(np.asarray(run.act(row)))  # a dict gives the environment's own
        observation, reward, _, _ = envs.step(action[None])
        total += float(reward[0])
    return total


@pytest.mark.filterwarnings("ignore:.*never learns", "ignore:.*checkpoints lack its state")
@pytest.mark.parametrize(
    ("algo", "Env", "exports"),
    [
        ("ppo", Reach, True),
        ("ppo", Images, False),
        ("dqn", Places, False),
        pytest.param("ppo", Images, True, marks=pytest.mark.slow),
        pytest.param("dqn", Places, True, marks=pytest.mark.slow),
    ],
)
def test_an_agent_is_loaded_evaluated_and_exported(
    tmp_path: Any, algo: str, Env: Any, exports: bool
) -> None:
    settings = dict(steps=160, batch_T=10, batch_B=8, progress=False, eval_episodes=0)
    rlpyt.train(algo, Env, run_dir=tmp_path / "run", **settings)
    run = rlpyt.load(tmp_path / "run")
    evaluation = run.evaluate(2, seed=5)
    assert evaluation.lengths == (10, 10)
    expected = [return_by_hand(run, Env, seed) for seed in (5, 6)]
    np.testing.assert_allclose(evaluation.returns, expected, rtol=1e-5)
    if exports:
        assert run.export(tmp_path / "policy.onnx", steps=20) <= 1e-4


@pytest.mark.filterwarnings("ignore:.*checkpoints lack its state")
def test_the_command_evaluates_after_training(tmp_path: Any) -> None:
    run = str(tmp_path / "run")
    given = ["--steps", "160", "--sampler.batch-T", "10", "--eval-episodes", "2", "--run-dir", run]
    for command in (["train", "ppo", "tests.tensor_envs:Reach", *given], ["eval", run]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0
    assert len(json.loads((tmp_path / "run" / "evaluation.json").read_text())["returns"]) == 2


@pytest.mark.filterwarnings("ignore:.*checkpoints lack its state")
def test_an_agent_of_a_script_is_loaded_and_evaluated(tmp_path: Any) -> None:
    with logger_context(tmp_path, 0, "script", use_summary_writer=False):
        MinibatchRl(
            algo=PPO(),
            agent=GaussianMlpAgent(),
            sampler=TensorSampler(untold, batch_T=10, batch_B=8),
            n_steps=160,
            seed=0,
        ).train()
    evaluation = rlpyt.load(tmp_path / "run_0").evaluate(2)
    assert evaluation.lengths == (10, 10)


@pytest.mark.filterwarnings("ignore:.*checkpoints lack its state")
def test_debugging_changes_nothing(tmp_path: Any) -> None:
    settings = dict(steps=160, batch_T=10, batch_B=8, progress=False, eval_episodes=0)
    runs = [
        rlpyt.train("ppo", Reach, run_dir=tmp_path / str(debug), debug=debug, **settings)
        for debug in (False, True)
    ]
    states = [run.agent.state_dict() for run in runs]
    assert all(torch.equal(x, states[1][name]) for name, x in states[0].items())


@pytest.mark.filterwarnings("ignore:.*checkpoints lack its state")
def test_a_single_environment_may_be_given_in_its_place(tmp_path: Any) -> None:
    settings = dict(steps=160, batch_T=10, batch_B=8, progress=False, eval_episodes=0)
    rlpyt.train("ppo", untold, run_dir=tmp_path / "run", sampler="tensor", **settings)
    assert rlpyt.load(tmp_path / "run").evaluate(1).lengths == (10,)
    assert rlpyt.load(tmp_path / "run", env=Single).evaluate(1).returns == (3.0,)
    again = rlpyt.load(tmp_path / "run", env=lambda num_envs: Reach(num_envs, limit=4))
    assert again.evaluate(1).lengths == (4,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": range(2)}, "sampler.kind='tensor' is for one agent"),
        ({"sampler": "serial"}, "it is for sampler.kind='tensor'"),
    ],
)
def test_what_needs_single_environments_is_refused(
    tmp_path: Any, settings: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rlpyt.train("ppo", Reach, run_dir=tmp_path / "run", steps=160, progress=False, **settings)
