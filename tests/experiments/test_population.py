"""Runs that train in lockstep: each equals the run of the same settings alone."""

import gc
import os
import random
import re
import signal
import sys
import warnings
import weakref
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import rlpyt
from rlpyt import PPO, setting
from rlpyt.algos import axis, axis_functions, axis_step
from rlpyt.experiments import population
from rlpyt.experiments.api import options_of
from rlpyt.experiments.population import PopulationError, seeds_of, train_population
from rlpyt.experiments.run import train
from rlpyt.models.dqn import dueling
from rlpyt.models.utils import scale_grad
from rlpyt.replays.memory import ReplayTooLarge
from rlpyt.runners.hooks import Hook, KeepBest
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.logging.snapshots import read_snapshot

QUIET = {"eval_episodes": 0, "video": False, "log_interval_steps": 10**6}
SERIAL = {"kind": "serial"}
SMALL = {"hidden_sizes": [16, 16]}
SPECTRAL = {"kind": "impala", "spectral_norm": True}
UNIT = {"kind": "batch_renorm", "unit_weights": True}
OFF_POLICY = {"min_steps_learn": 200, "sampler": SERIAL, "agent": SMALL, "batch_size": 16}
Q_LEARNING = OFF_POLICY | {"replay_ratio": 4}
CONTINUOUS = OFF_POLICY | {"replay_ratio": 128}


def rollouts(T=16, B=4, **kwargs):
    return {"sampler": {**SERIAL, "batch_T": T, "batch_B": B}, "agent": SMALL, **kwargs}


# (algorithm, environment, steps, settings): 16 to 64 updates
PAIRS = {
    "ppo": ("ppo", "CartPole-v1", 256, rollouts(minibatches=2, epochs=6)),
    "ppo-clipped": (
        *("ppo", "CartPole-v1", 256),
        rollouts(
            minibatches=2, epochs=6, clip_grad_norm=0.1, value_clip=0.2, linear_lr_schedule=True
        ),
    ),
    "ppo-normalized": (
        *("ppo", "CartPole-v1", 256),
        rollouts(minibatches=2, epochs=6, normalize_reward=True, normalize_advantage="minibatch")
        | {"agent": {**SMALL, "normalize_observation": True}},
    ),
    "ppo-lstm": (
        *("ppo", "toy/memory", 256),
        rollouts(minibatches=2, epochs=6) | {"agent": {"memory": "lstm", "memory_size": 8}},
    ),
    "ppo-gru": (
        *("ppo", "toy/memory", 128),
        rollouts(minibatches=2, epochs=6) | {"agent": {"memory": "gru", "memory_size": 8}},
    ),
    "ppo-sgd": (  # Adam's steps do not depend on the scale of gradients
        *("ppo", "CartPole-v1", 256),
        rollouts(minibatches=2, epochs=6, clip_grad_norm=None, OptimCls="SGD", learning_rate=0.1),
    ),
    "ppo-box": ("ppo", "Pendulum-v1", 256, rollouts(minibatches=2, epochs=6)),
    "ppo-images": (
        *("ppo", "MinAtar/Breakout-v1", 64),
        {"sampler": rollouts()["sampler"], "minibatches": 8, "epochs": 3},
    ),
    "ppo-impala": (  # Adam divides by gradients of residual blocks, which are tiny at first
        *("ppo", "MinAtar/Breakout-v1", 64),
        rollouts(minibatches=2, epochs=6, clip_grad_norm=None, OptimCls="SGD", learning_rate=0.1)
        | {"agent": {"model": {"encoder": SPECTRAL}, "hidden_sizes": [16]}},
    ),
    "dqn-impala": (
        *("dqn", "MinAtar/Breakout-v1", 48),
        OFF_POLICY
        | {"agent": {"model": {"encoder": SPECTRAL}, "hidden_sizes": [16]}}
        | {"min_steps_learn": 32},
    ),
    "a2c": ("a2c", "CartPole-v1", 2048, rollouts()),
    "vtrace": ("vtrace", "CartPole-v1", 1024, rollouts()),
    "dqn": ("dqn", "CartPole-v1", 260, Q_LEARNING),
    "rainbow": ("rainbow", "CartPole-v1", 260, Q_LEARNING),
    "qrdqn": ("qrdqn", "CartPole-v1", 260, Q_LEARNING),
    "iqn": ("iqn", "CartPole-v1", 260, Q_LEARNING),
    "ddpg": ("ddpg", "Pendulum-v1", 202, CONTINUOUS),
    "crossq": (
        *("crossq", "Pendulum-v1", 202),
        CONTINUOUS
        | {
            "agent": {
                **SMALL,
                "model": {"normalization": UNIT},
                "args": {"q_model_kwargs": {"hidden_sizes": [24, 16], "normalization": UNIT}},
            }
        }
        | {"q_learning_rate": 2e-3},  # a group without gradient in most updates
    ),
    "td3": ("td3", "Pendulum-v1", 202, CONTINUOUS),
    "sac": ("sac", "Pendulum-v1", 204, OFF_POLICY),
    "sac-atoms": (
        *("sac", "Pendulum-v1", 202),
        CONTINUOUS
        | {
            "agent": {
                **SMALL,
                "model": {"normalization": UNIT},
                "args": {"q_model_kwargs": {"n_atoms": 11}, "noise_hold": 2},
            }
        }
        | {"normalize_reward": True, "joint_critics": True},
    ),
    "sac-gru": (  # its memories run outside of the losses
        *("sac", "Pendulum-v1", 264),
        CONTINUOUS | {"agent": {"memory": "gru", "memory_size": 8}, "batch_T": 8, "batch_B": 4},
    ),
    "sac-dropout": (
        *("sac", "Pendulum-v1", 202),
        CONTINUOUS | {"agent": {"model": {}, "args": {"q_model_kwargs": {"layer_norm": True}}}},
    ),
}


class Final(Hook):
    """Hook that keeps the agent's parameters, the states of the generators and the updates."""

    def __init__(self):
        self.parameters, self.random, self.updates = {}, None, 0

    def on_end(self, runner):
        self.parameters = {k: x.clone() for k, x in flat(runner.agent.state_dict()).items()}
        self.random = (torch.get_rng_state(), np.random.get_state()[1], random.random())
        self.updates = runner.algo.update_counter


def flat(tree, name=""):
    if isinstance(tree, dict):
        return {k: x for key, part in tree.items() for k, x in flat(part, f"{name}.{key}").items()}
    return {name: tree} if torch.is_tensor(tree) else {}


def options_for(pair, seed=0, **changes):
    algo, env, steps, settings = PAIRS[pair]
    options = options_of(algo, env, **settings)
    return options.updated({**QUIET, "steps": steps, "seed": seed, **changes})


def alone(options, path):
    final = Final()
    train(options, path, hooks=[final])
    return final


class FinalOfEach(Hook):
    """One ``Final`` for each run, by seed and learning rate."""

    def __init__(self):
        self.finals = []

    def __deepcopy__(self, memo):
        return self

    def on_end(self, runner):
        self.finals.append((runner.seed, runner.algo.learning_rate, final := Final()))
        final.on_end(runner)


def together(runs):
    hook = FinalOfEach()
    train_population(runs, hooks=[hook])
    return hook.finals


def distance(a, b):
    assert a.parameters.keys() == b.parameters.keys()
    pairs = ((x.double(), b.parameters[k].double()) for k, x in a.parameters.items() if x.numel())
    return max(float((x - y).abs().max()) for x, y in pairs)


def same_streams(a, b):
    equal = torch.equal(a.random[0], b.random[0]) and np.array_equal(a.random[1], b.random[1])
    return equal and a.random[2] == b.random[2]


# Others of the family, and VARIED, are fast.
RELATED = ("ppo", "ppo-gru", "ppo-impala", "qrdqn", "ddpg", "sac")


@pytest.mark.parametrize(
    "pair", [pytest.param(x, marks=pytest.mark.slow) if x in RELATED else x for x in PAIRS]
)
def test_each_agent_is_that_of_its_own_run(tmp_path, pair, recwarn):
    """After 16 to 64 updates, up to rounding, with the same random streams.

    Adam's steps depend on the scale of gradients, and rounding of tiny ones is not amplified, if
    its eps is large.
    """
    plain = "OptimCls" in PAIRS[pair][3]  # SGD
    algo = {} if plain else {"optim_kwargs": {"eps": 0.1}, "learning_rate": 0.01}
    runs = {tmp_path / f"seed_{seed}": options_for(pair, seed, algo=algo) for seed in (3, 5)}
    finals = {seed: final for seed, _, final in together(runs)}
    warned = [w for w in recwarn if "one agent after the other" in str(w.message)]
    assert bool(warned) == (pair == "sac-gru"), warned[0].message
    for seed in (3, 5):
        expected = alone(options_for(pair, seed, algo=algo), tmp_path / f"alone_{seed}")
        assert finals[seed].updates == expected.updates > 10
        assert distance(finals[seed], expected) < 1e-5
        assert same_streams(finals[seed], expected)


VARIED = {
    "learning_rate": ({"learning_rate": 1e-3}, {"learning_rate": 1e-4}),
    "entropy": ({"entropy_loss_coeff": 0.0}, {"entropy_loss_coeff": 0.5}),
    "ratio_clip": ({"ratio_clip": 0.05}, {"ratio_clip": 0.3}),
    "clip_grad_norm": ({"clip_grad_norm": 0.05}, {"clip_grad_norm": 1.0}),
    "kl": ({"target_kl": 1e-5}, {"target_kl": 10.0}),
    "kl of the last": ({"target_kl": 10.0}, {"target_kl": 1e-5}),
    "schedule": ({"linear_lr_schedule": True}, {"linear_lr_schedule": False}),
    "value": ({"value_loss_coeff": 0.1}, {"value_loss_coeff": 2.0}),
}


@pytest.mark.parametrize("name", VARIED)
def test_each_agent_has_its_own_settings(tmp_path, name):
    settings = [dict(x) for x in VARIED[name]]
    runs = {tmp_path / f"agent_{i}": options_for("ppo", algo=own) for i, own in enumerate(settings)}
    hook = FinalOfEach()
    train_population(runs, hooks=[hook])
    expected = [alone(o, tmp_path / f"alone_{i}") for i, o in enumerate(runs.values())]
    for final in expected:
        nearest = min(distance(own, final) for _, _, own in hook.finals)
        assert nearest < 1e-5
    assert distance(*expected) > 1e-4  # the setting matters
    assert {x.updates for *_, x in hook.finals} == {x.updates for x in expected}


@pytest.mark.parametrize(
    "changes",
    [({"delta_clip": 1.0}, {"delta_clip": 0.01}), ({"munchausen": 0.9}, {"munchausen": 0.5})],
)
def test_numbers_of_losses_of_deep_q_learning_differ(tmp_path, changes, recwarn):
    runs = [
        options_for("dqn", algo={"replay_ratio": 4, "optim_kwargs": {"eps": 0.1}, **own})
        for own in changes
    ]
    assert_each_equals_its_own(tmp_path, runs)
    assert not [w for w in recwarn if "one agent after the other" in str(w.message)]


def test_agents_that_are_computed_apart_take_turns(tmp_path):
    """Two networks of one size and one of another, of which none waits for all others' ends."""
    seen = []

    class Order(Hook):
        def on_iteration(self, runner, itr):
            seen.append((runner.seed, itr))

    sizes = [[8], [8], [16]]
    runs = {
        tmp_path / f"run_{i}": options_for("ppo", i, agent={"hidden_sizes": size})
        for i, size in enumerate(sizes)
    }
    train_population(runs, hooks=[Order()])
    assert len(seen) == 12
    ends = {seed: max(i for i, (own, _) in enumerate(seen) if own == seed) for seed in range(3)}
    begins = {seed: min(i for i, (own, _) in enumerate(seen) if own == seed) for seed in range(3)}
    assert max(begins.values()) < min(ends.values())
    assert all(itr == n // 3 for n, (_, itr) in enumerate(seen))


def test_some_of_several_agents_stop_their_updates_early(tmp_path):
    runs = [options_for("ppo", seed, algo={"target_kl": 0.002}, steps=512) for seed in range(4)]
    assert_each_equals_its_own(tmp_path, runs)


class Push(gymnasium.Env):
    """A reward for the first component of the action, within bounds that are an argument."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, bound):
        self.action_space = gymnasium.spaces.Box(-bound, bound, (2,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.reset()[0], 0.01 * float(action[0]), False, False, {}


OF_AGENT = {
    "arguments": (
        "td3",
        "Pendulum-v1",
        [{"agent": {"args": {"target_noise_std": x}}} for x in (0.01, 0.5)],
    ),
    "spaces": ("sac", Push, [{"env_args": {"bound": x}} for x in (1.0, 1.2)]),
}


@pytest.mark.parametrize("name", OF_AGENT)
def test_numbers_of_the_agent_are_its_own(tmp_path, name, recwarn):
    """Losses read them; in the first evaluation they make less difference than rounding may."""
    algo, env, changes = OF_AGENT[name]
    settings = {**OFF_POLICY, **QUIET, **changes[0], "agent": SMALL, "steps": 203}
    start = options_of(algo, env, **settings)
    runs = {tmp_path / f"agent_{i}": start.updated(own) for i, own in enumerate(changes)}
    found = [final for *_, final in together(runs)]
    assert not [w for w in recwarn if "one agent after the other" in str(w.message)]
    expected = [alone(o, tmp_path / f"alone_{i}") for i, o in enumerate(runs.values())]
    assert all(min(distance(x, y) for y in found) < 1e-5 for x in expected)
    assert distance(*expected) > 1e-4


# Defects that the tests above find: (function to replace, its replacement, pair).
def shared_numbers(algos):
    return []


def first_generator(self, draw):
    draws = torch.stack([draw(self._generators[0])] * len(self._generators))
    return axis_functions._add_batch_dim(draws, 0, axis_functions.maybe_current_level())


def clip_by_largest(self, norms, numbers, gradients):
    largest = max(max(own[:-1]) for own in numbers)
    for g in (g for g in gradients if g is not None):
        g.mul_(min(1.0, self._steps[0].clip_grad_norm / largest))


def mean_of_losses(loss, inputs):
    return [g if g is None else g / 3 for g in RIGHT_GRADIENTS(loss, inputs)]


def aliased(loss, inputs):
    found = torch.autograd.grad(loss, inputs, allow_unused=True)
    return [g if g is None else g.contiguous() for g in found]


RIGHT_GRADIENTS = axis_step.gradients_of
MUTANTS = {
    "settings of the first": (axis, "differing_numbers", shared_numbers, "entropy"),
    "noise of the first": (axis_functions.AgentAxisMode, "_each", first_generator, "sac"),
    "one norm for all": (axis_step.StackedStep, "_clip", clip_by_largest, "ppo-clipped"),
    "mean of losses": (axis_step, "gradients_of", mean_of_losses, "ppo-sgd"),
    "one gradient for two biases": (axis_step, "gradients_of", aliased, "ppo-lstm-clipped"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_finds_planted_defects(tmp_path, monkeypatch, mutant):
    place, name, function, case = MUTANTS[mutant]
    monkeypatch.setattr(axis.AgentAxis, "_difference", lambda *_: "")
    if case == "entropy":
        runs = [options_for("ppo", algo=dict(own)) for own in VARIED["entropy"]]
    elif case == "ppo-lstm-clipped":
        runs = [options_for("ppo-lstm", s, algo={"clip_grad_norm": 0.01}) for s in (3, 4)]
    else:
        runs = [options_for(case, seed) for seed in (3, 4)]
    paths = {tmp_path / f"run_{i}": options for i, options in enumerate(runs)}
    expected = [alone(o, tmp_path / f"alone_{i}") for i, o in enumerate(runs)]
    monkeypatch.setattr(place, name, function)
    found = [final for *_, final in together(paths)]
    assert max(min(distance(x, y) for y in found) for x in expected) > 1e-5


def test_gradients_that_differ_are_noticed_at_the_first_evaluation(tmp_path, monkeypatch):
    """Of a function whose result is right, such as one that scales gradients where it sees any."""

    def scaled(x, scale):
        return scale_grad(x, scale) if torch.is_grad_enabled() and x.requires_grad else x

    monkeypatch.setattr(dueling, "_scaled", scaled)
    runs = {tmp_path / f"seed_{seed}": options_for("rainbow", seed) for seed in (3, 5)}
    with pytest.warns(UserWarning, match=r"DQN.loss .*gradients differ by 0\.4.*\((weight|bias)\)"):
        finals = {seed: final for seed, _, final in together(runs)}
    for seed in (3, 5):
        expected = alone(options_for("rainbow", seed), tmp_path / f"{seed}")
        assert distance(finals[seed], expected) == 0


def test_what_cannot_be_evaluated_at_once_is_evaluated_apart(tmp_path, monkeypatch):
    """With a warning, and exactly as alone; a loss that draws from elsewhere is noticed."""

    def loss(self, batch):
        results = loss_of_ppo(self, batch)
        return (results[0] * float(results[0].isfinite()), *results[1:])

    loss_of_ppo = PPO.loss
    monkeypatch.setattr(PPO, "loss", loss)
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4)}
    with pytest.warns(UserWarning, match="PPO.loss"):
        finals = {seed: final for seed, _, final in together(runs)}
    for seed in (3, 4):
        assert distance(finals[seed], alone(options_for("ppo", seed), tmp_path / f"{seed}")) == 0


def test_wrong_results_of_the_first_evaluation_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(axis, "differing_numbers", shared_numbers)
    runs = [options_for("ppo", algo=dict(own)) for own in VARIED["entropy"]]
    with pytest.warns(UserWarning, match="results differ"):
        found = together({tmp_path / f"{i}": o for i, o in enumerate(runs)})
    expected = [alone(o, tmp_path / f"alone_{i}") for i, o in enumerate(runs)]
    assert max(min(distance(x, y) for *_, y in found) for x in expected) < 1e-5


class FailsAt(Hook):
    """Hook that gives one run a reward or parameter that is not finite, or stops it."""

    def __init__(self, seed, what):
        self.seed, self.what = seed, what

    def on_iteration(self, runner, itr):
        if runner.seed != self.seed or itr != 1:
            return
        if self.what == "nan":
            with torch.no_grad():
                next(runner.agent.model.parameters())[0] = torch.nan
        elif self.what == "stop":
            runner.request_stop()
        else:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def ppo_alone(tmp_path_factory):
    """Function of a seed that returns the result of "ppo" alone, trained once."""

    @cache
    def result(seed):
        return alone(options_for("ppo", seed), tmp_path_factory.mktemp("alone") / "run")

    return result


def test_an_agent_that_becomes_nan_ends_alone(tmp_path, ppo_alone):
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4, 5)}
    final = FinalOfEach()
    with pytest.raises(
        PopulationError, match="(?s)1 of 3 runs failed.*seed_4.*debug.log"
    ) as caught:
        train_population(runs, hooks=[FailsAt(4, "nan"), final])
    (path,) = caught.value.errors
    assert path.name == "seed_4"
    finals = {seed: own for seed, _, own in final.finals}
    for seed in (3, 5):
        assert distance(finals[seed], ppo_alone(seed)) < 1e-5


def test_the_others_go_on_without_one_that_stops(tmp_path, ppo_alone):
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4, 5)}
    final = FinalOfEach()
    train_population(runs, hooks=[FailsAt(3, "stop"), final])
    finals = {seed: own for seed, _, own in final.finals}
    assert finals[3].updates == 24
    assert distance(finals[5], ppo_alone(5)) < 1e-5


def test_a_signal_stops_all_and_each_resumes_alone(tmp_path, ppo_alone):
    before = signal.getsignal(signal.SIGTERM)
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4)}
    with pytest.raises(SystemExit) as stopped:
        train_population(runs, hooks=[FailsAt(4, "signal")])
    assert stopped.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == before
    final = Final()
    train(options_for("ppo", 3), tmp_path / "seed_3", hooks=[final], resume=True)
    assert final.updates == ppo_alone(3).updates
    assert distance(final, ppo_alone(3)) < 1e-5


def test_all_resume_together(tmp_path, ppo_alone):
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4)}
    with pytest.raises(SystemExit):
        train_population(runs, hooks=[FailsAt(3, "signal")])
    final = FinalOfEach()
    train_population(runs, hooks=[final], resume=True)
    for seed, _, own in final.finals:
        assert distance(own, ppo_alone(seed)) < 1e-5


def test_settings_that_change_shapes_are_computed_apart_and_named(tmp_path, capsys):
    sizes = ([8], [16])
    runs = {
        tmp_path / f"agent_{i}": options_for("ppo", seed=i, agent={"hidden_sizes": x})
        for i, x in enumerate(sizes)
    }
    found = [final for *_, final in together(runs)]
    said = "1 of 2 agents are computed apart .* differ in agent.hidden_sizes\\[0\\]\\."
    assert len(re.findall(said, capsys.readouterr().out)) == 1
    for i, options in enumerate(runs.values()):
        expected = alone(options, tmp_path / f"alone_{i}")
        own = [x for x in found if _shapes(x) == _shapes(expected)]
        assert distance(own[0], expected) == 0


def _shapes(final):
    return {k: x.shape for k, x in final.parameters.items()}


def test_each_run_has_its_own_hooks(tmp_path):
    runs = {
        tmp_path / f"seed_{seed}": options_for("ppo", seed, steps=512, log_interval_steps=64)
        for seed in (3, 4)
    }
    train_population(runs, hooks=[KeepBest()])
    for path, options in runs.items():
        train(options, path.with_name(f"alone_{path.name}"), hooks=[KeepBest()])
        best = [read_snapshot(x / "best.pkl") for x in (path, path.with_name(f"alone_{path.name}"))]
        assert best[0]["return_"] == best[1]["return_"]
        assert best[0]["itr"] == best[1]["itr"]


def test_state_of_the_process_is_as_before(tmp_path):
    before = np.random.get_state()[1].copy(), torch.get_rng_state(), random.getstate()
    bits = np.random.get_bit_generator()
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4)}
    train_population(runs)
    assert np.random.get_bit_generator() is bits
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])
    assert random.getstate() == before[2]


def test_an_interrupt_while_losses_are_computed_ends_all_in_order(tmp_path, monkeypatch):
    losses, calls = axis.AgentAxis.losses, []

    def interrupted(self, name, *args):
        calls.append(name)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return losses(self, name, *args)

    monkeypatch.setattr(axis.AgentAxis, "losses", interrupted)
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4)}
    final, bits = FinalOfEach(), np.random.get_bit_generator()
    with pytest.raises(KeyboardInterrupt):
        train_population(runs, hooks=[final])
    assert [seed for seed, *_ in final.finals] == [3, 4]  # each has called its hooks
    assert np.random.get_bit_generator() is bits and not logger.get_snapshot_dir()
    assert not any(RunLock(path).owner() for path in runs)


class Remember(Hook):
    """Refers weakly to the algorithm of the run that ends; notes later if it is still there."""

    def __init__(self, seed):
        self.seed, self.algo, self.is_alive = seed, None, []

    def __deepcopy__(self, memo):
        return self

    def on_iteration(self, runner, itr):
        if runner.seed == self.seed:
            self.algo = weakref.ref(runner.algo)
        else:
            gc.collect()
            self.is_alive.append(self.algo() is not None)


def test_an_agent_that_has_ended_leaves_no_memory_taken(tmp_path):
    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4)}
    hook = Remember(3)
    train_population(runs, hooks=[hook, FailsAt(3, "stop")])
    assert hook.is_alive[0] and not hook.is_alive[-1]


def test_in_python(tmp_path):
    settings = {**PAIRS["ppo"][3], **QUIET, "progress": False, "steps": 256}
    runs = rlpyt.train("ppo", "CartPole-v1", seeds=range(2), run_dir=tmp_path / "a", **settings)
    assert [run.path.name for run in runs] == ["seed_0", "seed_1"]
    assert len(read_progress(runs[1].path)["Diagnostics/CumSteps"]) == 1
    assert runs[0].evaluate(1).lengths[0] > 0
    population = [{"algo.learning_rate": 1e-3}, {"algo.learning_rate": 1e-2}]
    runs = rlpyt.train(
        "ppo", "CartPole-v1", population=population, run_dir=tmp_path / "b", **settings
    )
    assert [run.options.algo["learning_rate"] for run in runs] == [1e-3, 1e-2]
    with pytest.raises(ValueError, match="population"):
        rlpyt.train("ppo", "CartPole-v1", seeds=[0], population=population, **settings)


def test_by_command(tmp_path, capsys):
    from rlpyt.cli.main import main

    command = "train ppo CartPole-v1 --seeds 0-1,5 --steps 512 --eval-episodes 1"
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--run-dir", str(tmp_path / "runs")])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "Training 3 agents, ppo on CartPole-v1, for 512 steps each" in printed
    assert "seed_5  return" in printed
    assert {x.name for x in (tmp_path / "runs").iterdir()} == {"seed_0", "seed_1", "seed_5"}
    assert (tmp_path / "runs" / "seed_5" / "evaluation.json").exists()
    with pytest.raises(SystemExit) as ended:
        main(["resume", str(tmp_path / "runs"), "--steps", "1024"])
    assert ended.value.code == 0
    assert "Training 3 agents" in capsys.readouterr().out
    steps = read_progress(tmp_path / "runs" / "seed_1")["Diagnostics/CumSteps"]
    assert steps[-1] == 1024


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "0.5", f"0-{10**30}", "0-9999,5"])
def test_lists_of_seeds_are_checked(text):
    with pytest.raises(ValueError, match="seeds="):
        seeds_of(text)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("seeds", {"seeds": [0, 0]}),
        ("seeds", {"seeds": []}),
        ("population", {"population": []}),
        ("seeds alone", {"seeds": [0, 1], "seed": 3}),
        ("debug", {"seeds": [0, 1], "debug": True}),
        ("device", {"seeds": [0, 1], "device": "cuda"}),
        ("ranks", {"seeds": [0, 1], "ranks": 2}),
        ("asynchronous", {"seeds": [0, 1], "sampler": {"asynchronous": True}}),
        ("compile_loss", {"seeds": [0, 1], "compile_loss": True}),
        ("compile", {"seeds": [0, 1], "compile": "loss"}),
        ("matmul_precision", {"seeds": [0, 1], "matmul_precision": "medium"}),
        ("learning_rat", {"population": [{"algo.learning_rat": 1.0}]}),
    ],
)
def test_what_cannot_be_a_population_is_refused(tmp_path, name, given):
    with pytest.raises(ValueError, match=name):
        rlpyt.train("ppo", "CartPole-v1", run_dir=tmp_path / "runs", **given)
    assert not (tmp_path / "runs").exists()


def test_more_agents_than_fit_into_memory_are_refused_with_the_number_that_fit(
    tmp_path, monkeypatch
):
    free, pattern = 15_000_000, r"^3 agents need .* 15 MB are free: (\d+) fit"
    monkeypatch.setattr(population, "available_memory", lambda: free)
    settings = {**QUIET, **OFF_POLICY, "steps": 300, "replay_size": 200_000}
    with pytest.raises(ReplayTooLarge, match=pattern) as caught:
        rlpyt.train("dqn", "CartPole-v1", seeds=range(3), run_dir=tmp_path / "a", **settings)
    fitting = int(re.search(pattern, str(caught.value))[1])
    assert fitting in (1, 2) and not [*(tmp_path / "a").glob("*/progress.csv")]
    rlpyt.train("dqn", "CartPole-v1", seeds=range(fitting), run_dir=tmp_path / "b", **settings)


def test_the_default_sampler_of_an_environment_learns(tmp_path):
    """CartPole's has workers, which would read other parameters than those that are trained."""
    options = options_of("ppo", "CartPole-v1")
    assert options.sampler.kind == "cpu"
    options = options.updated({**QUIET, "steps": 1024, "algo": {"epochs": 2}})
    found = together({tmp_path / f"{i}": options.updated({"seed": i}) for i in (3, 4)})
    expected = alone(options.updated({"seed": 3}), tmp_path / "alone")
    assert distance({seed: final for seed, _, final in found}[3], expected) < 1e-5


def test_lists_of_seeds():
    assert seeds_of("0-3") == seeds_of(range(4)) == [0, 1, 2, 3]
    assert seeds_of("0-3,7, 10-11") == [0, 1, 2, 3, 7, 10, 11]


def test_paths_are_absolute_for_environments_that_change_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {**PAIRS["ppo"][3], **QUIET, "progress": False, "steps": 128}
    runs = rlpyt.train("ppo", "CartPole-v1", seeds=[1], run_dir="here", **settings)
    assert runs[0].path == Path(tmp_path, "here", "seed_1")


def test_a_signal_stops_the_others_after_one_has_ended(tmp_path):
    """The run that ends first restores the handlers that it has found: those of the process."""
    before = signal.getsignal(signal.SIGTERM)

    class StopThenSignal(Hook):
        def on_iteration(self, runner, itr):
            if (runner.seed, itr) == (3, 0):
                runner.request_stop()
            if (runner.seed, itr) == (5, 2):
                assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
                os.kill(os.getpid(), signal.SIGTERM)

    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4, 5)}
    with pytest.raises(SystemExit) as stopped:
        train_population(runs, hooks=[StopThenSignal()])
    assert stopped.value.code == 143
    assert all([*(path / "checkpoint").iterdir()] for path in runs)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_after_one_has_failed_stops_the_others(tmp_path, capsys):
    class FailThenSignal(Hook):
        def on_iteration(self, runner, itr):
            if (runner.seed, itr) == (3, 0):
                raise ValueError("my own")
            if (runner.seed, itr) == (5, 2):
                os.kill(os.getpid(), signal.SIGTERM)

    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4, 5)}
    with pytest.raises(SystemExit) as stopped:
        train_population(runs, hooks=[FailThenSignal()])
    assert stopped.value.code == 143
    told = capsys.readouterr().err
    assert "the others were stopped by a signal.\nseed_3: ValueError: my own" in told


def test_one_that_ends_the_program_does_not_stop_the_others(tmp_path):
    class Expired(Hook):
        def on_iteration(self, runner, itr):
            if (runner.seed, itr) == (3, 0):
                sys.exit("the license expired")

    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4)}
    with pytest.raises(SystemExit, match="the license expired"):
        train_population(runs, hooks=[Expired()])
    steps = [*read_progress(tmp_path / "seed_4")["Diagnostics/CumSteps"]]
    assert steps[-1] == runs[tmp_path / "seed_4"].steps


def test_a_signal_while_one_starts_stops_all(tmp_path):
    iterations = []

    class SignalAtStart(Hook):
        def on_iteration(self, runner, itr):
            iterations.append(itr)

        def on_start(self, runner):
            if runner.seed == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    runs = {tmp_path / f"seed_{seed}": options_for("ppo", seed) for seed in (3, 4, 5)}
    with pytest.raises(SystemExit) as stopped:
        train_population(runs, hooks=[SignalAtStart()])
    assert stopped.value.code == 143
    assert not (tmp_path / "seed_5").exists()
    assert iterations == [0]


def assert_each_equals_its_own(tmp_path, options, hooks=()):
    """Compare the runs, in the order in which they end, with those of the same options alone."""
    final = FinalOfEach()
    runs = {tmp_path / f"run_{i}": own for i, own in enumerate(options)}
    train_population(runs, hooks=[*hooks, final])
    found = [own for *_, own in final.finals]
    for i, own in enumerate(options):
        expected = Final()
        train(own, tmp_path / f"alone_{i}", hooks=[*hooks, expected])
        assert min(distance(expected, x) for x in found) < 1e-5


def test_workers_act_with_the_parameters_of_the_last_update(tmp_path):
    """Stacked parameters are no longer in the memory that the workers read."""
    workers = {"kind": "cpu", "n_workers": 1, "batch_T": 16, "batch_B": 4}
    runs = [options_for("ppo", seed, steps=192, sampler=workers) for seed in (3, 4)]
    assert_each_equals_its_own(tmp_path, runs)


def test_numbers_may_be_integers(tmp_path):
    """Also if they have no effect in the first update, in which values are not clipped."""
    runs = [
        options_for("ppo", algo={"value_clip": limit, "learning_rate": 0.01}) for limit in (1, 100)
    ]
    assert_each_equals_its_own(tmp_path, runs)


class Assigns(Hook):
    """Hook that changes a setting of the run with seed 4."""

    def __init__(self, name, value):
        self.name, self.value, self.n_assigned = name, value, 0

    def __deepcopy__(self, memo):
        return self

    def on_iteration(self, runner, itr):
        if runner.seed == 4 and runner.algo.update_counter == 4:
            setattr(runner.algo, self.name, self.value)
            self.n_assigned += 1


def test_a_hook_can_change_a_setting_of_one(tmp_path):
    """Here in the loss from squared to absolute errors, which is another function."""
    changes = {"delta_clip": None, "learning_rate": 0.001, "replay_ratio": 1}
    runs = [options_for("dqn", seed, steps=384, algo=changes) for seed in (3, 4)]
    hook = Assigns("delta_clip", 0.01)
    assert_each_equals_its_own(tmp_path, runs, [hook])
    assert hook.n_assigned == 2  # together and alone


def test_a_term_outside_the_loss_may_begin_later(tmp_path, monkeypatch):
    def update(self, batch):
        loss, *others = self.compiled(self.loss)(batch)
        if self.update_counter >= 10:
            loss = loss + 0.1 * sum((p**2).sum() for p in self.agent.model.parameters())
        norm = self.gradient_step(loss)
        return loss.detach(), norm, *(x.detach() for x in others)

    monkeypatch.setattr(PPO, "update", update)
    assert_each_equals_its_own(tmp_path, [options_for("ppo", seed, steps=128) for seed in (3, 4)])


@pytest.mark.filterwarnings("ignore:.*evaluated for one agent")
def test_one_of_two_losses_is_evaluated_apart(tmp_path, monkeypatch):
    from rlpyt.algos.qpg.sac import SAC

    def q_loss(self, samples):
        losses, *others = q_loss_of_sac(self, samples)
        return losses * float(losses.detach().isfinite().all()), *others

    q_loss_of_sac = SAC.q_loss
    monkeypatch.setattr(SAC, "q_loss", q_loss)
    assert_each_equals_its_own(tmp_path, [options_for("sac", s, steps=202) for s in (3, 4)])


@pytest.mark.filterwarnings("ignore:.*evaluated for one agent")
def test_a_loss_may_draw_from_numpy(tmp_path, monkeypatch):
    def loss(self, batch):
        first, *others = loss_of_ppo(self, batch)
        return (first * (1 + 0.1 * np.random.rand()), *others)

    loss_of_ppo = PPO.loss
    monkeypatch.setattr(PPO, "loss", loss)
    assert_each_equals_its_own(tmp_path, [options_for("ppo", seed, steps=128) for seed in (3, 4)])


def test_statistics_that_a_loss_updates_count_each_batch_once(tmp_path, monkeypatch):
    """The first evaluation is repeated to compare the results."""

    def loss(self, batch):
        self.mean.mul_(0.9).add_(0.1 * batch.return_.mean())
        first, *others = loss_of_ppo(self, batch)
        return (first * (1 + 0.1 * self.mean), *others)

    def prepare(self, *args, **kwargs):
        prepare_ppo(self, *args, **kwargs)
        self.mean = torch.zeros(())

    loss_of_ppo, prepare_ppo = PPO.loss, PPO.prepare
    monkeypatch.setattr(PPO, "loss", loss)
    monkeypatch.setattr(PPO, "prepare", prepare)
    assert_each_equals_its_own(tmp_path, [options_for("ppo", seed, steps=128) for seed in (3, 4)])


class Cooled(torch.nn.Module):
    """Policy and value whose temperature falls in every forward pass of training."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(observation_shape[0], n) for n in (output_size, 1)
        )
        self.temperature = 4.0

    def forward(self, observation, prev_action, prev_reward):
        if torch.is_grad_enabled():
            self.temperature *= 0.8
        pi, value = (layer(observation) for layer in self.layers)
        return torch.softmax(pi / self.temperature, -1), value.squeeze(-1)


@dataclass(eq=False)
class LatePenalty(PPO):
    """PPO with penalties of the parameters from an update on."""

    penalty_start: int = setting(10, ge=0, doc="updates before the penalties")
    weights: tuple[float, float] = (0.0, 0.0)

    def loss(self, batch):
        """Add the penalties."""
        loss, *others = super().loss(batch)
        if self.update_counter >= self.penalty_start:
            first, second, *_ = self.agent.parameters()
            sums = [(p**2).sum() for p in (first, second)]
            loss = loss + sum(w * x for w, x in zip(self.weights, sums))
        return loss, *others


def test_settings_of_a_custom_loss_that_are_no_fractions_are_each_agents_own(tmp_path):
    different = [(6, (1.0, 0.0)), (2, (1.0, 0.0)), (2, (0.0, 1.0))]
    runs = []
    for seed, (start, weights) in enumerate(different):
        algo = {"penalty_start": start, "weights": weights}
        options = options_of(LatePenalty, "CartPole-v1", **PAIRS["ppo"][3])
        runs.append(options.updated({**QUIET, "steps": 256, "seed": seed, "algo": algo}))
    assert_each_equals_its_own(tmp_path, runs)


@dataclass(eq=False)
class Patient(PPO):
    """PPO with a penalty after some iterations without many ends of episodes."""

    def optimize_agent(self, itr, samples):
        """Count such iterations."""
        self.waited = 0 if samples.env.done.sum() > 3 else vars(self).get("waited", 0) + 1
        return super().optimize_agent(itr, samples)

    def loss(self, batch):
        """Add the penalty."""
        loss, *others = super().loss(batch)
        if self.waited > 1:
            loss = loss + sum((p**2).sum() for p in self.agent.parameters())
        return loss, *others


@pytest.mark.parametrize(
    "cls,settings",
    [
        (
            LatePenalty,
            [{"target_kl": x, "penalty_start": 4, "weights": (1.0, 0.0)} for x in (1, 1e-9)],
        ),
        (Patient, [{}, {}]),
    ],
)
def test_counts_that_a_custom_loss_reads_are_each_agents_own(tmp_path, cls, settings):
    options = options_of(cls, "CartPole-v1", **PAIRS["ppo"][3])
    runs = [
        options.updated({**QUIET, "steps": 512, "seed": seed, "algo": algo})
        for seed, algo in enumerate(settings)
    ]
    assert_each_equals_its_own(tmp_path, runs)


@pytest.mark.parametrize("name,settings", [("td3", {}), ("sac", {})])
def test_groups_may_change_between_updates_and_within_one(tmp_path, monkeypatch, name, settings):
    """Each group moves the tensors of its members, also those that a loss was a function of."""
    monkeypatch.setattr(axis, "discrete_settings", lambda cls: frozenset())
    intervals = [settings | {"policy_update_interval": n, "min_steps_learn": 20} for n in (1, 2, 3)]
    runs = [options_for(name, seed, steps=22, algo=own) for seed, own in enumerate(intervals)]
    assert_each_equals_its_own(tmp_path, runs)


class Mean:
    """A mean of what an algorithm has seen."""

    def __init__(self):
        self.of = {"ends": [0.0]}


@dataclass(eq=False)
class Observant(PPO):
    """PPO with a penalty by the share of episodes that have ended, which it keeps somewhere."""

    place: str = "object"

    def initialize(self, *args, **kwargs):
        """Prepare the place."""
        super().initialize(*args, **kwargs)
        places = {"object": Mean(), "tensor": None, "numpy": np.float32(0), "model": None}
        places |= {"deque": deque([0.0], maxlen=3), "array": np.zeros(2), "dict": {"share": 0.0}}
        self.seen, self.agent.model.share = places[self.place], 0.0

    def optimize_agent(self, itr, samples):
        """Note the share, so that the loss of the first batch is that of all agents."""
        result = super().optimize_agent(itr, samples)
        share = float(samples.env.done.float().mean())
        if self.place == "object":
            self.seen.of["ends"][0] += share
        elif self.place == "tensor":
            self.seen = torch.tensor(share) if self.seen is None else self.seen + share
        elif self.place == "numpy":
            self.seen = np.float32(self.seen + share)
        elif self.place == "model":
            self.agent.model.share = share
        elif self.place == "deque":
            self.seen.append(share)
        else:
            self.seen[0 if self.place == "array" else "share"] += share
        return result

    def weight(self):
        """Return the weight of the penalty."""
        if self.place in ("tensor", "numpy"):
            return 0.0 if self.seen is None else self.seen
        if self.place == "deque":
            return sum(self.seen)
        if self.place == "model":
            return self.agent.model.share
        if self.place == "object":
            return self.seen.of["ends"][0]
        return self.seen[0 if self.place == "array" else "share"]

    def loss(self, batch):
        """Add the penalty."""
        loss, *others = super().loss(batch)
        norm = sum((p**2).sum() for p in self.agent.parameters())
        return loss + 5 * self.weight() * norm, *others


CONTAINERS = "deque", "array", "dict"  # compared as the list within the object


@pytest.mark.parametrize(
    "place",
    [
        *("object", "tensor", "numpy", "model"),
        *(pytest.param(x, marks=pytest.mark.slow) for x in CONTAINERS),
    ],
)
def test_what_a_custom_algorithm_keeps_is_each_agents_own(tmp_path, place):
    runs = []
    for seed in range(2):
        options = options_of(Observant, "CartPole-v1", **PAIRS["ppo"][3])
        given = {"steps": 256, "seed": seed, "algo": {"place": place}}
        runs.append(options.updated({**QUIET, **given}))
    assert_each_equals_its_own(tmp_path, runs)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: [np.float32(0)], lambda x: x.__setitem__(0, np.float32(1))),
        (lambda: deque([0.0], maxlen=3), lambda x: x.append(1.0)),
        (lambda: np.zeros(2), lambda x: x.__setitem__(1, 1.0)),
        (lambda: {"share": 0.0}, lambda x: x.update(share=1.0)),
        (lambda: {"share": 0.0}, lambda x: x.update(other=0.0)),
        (Mean, lambda x: x.of["ends"].__setitem__(0, 1.0)),
        (lambda: {1}, lambda x: x.add(2)),
        (lambda: [(np.zeros(2), {"a": deque([1])})], lambda x: x[0][1]["a"].append(2)),
    ],
    ids=["numpy", "deque", "array", "value", "key", "object", "set", "nested"],
)
def test_what_custom_parts_keep_is_compared_by_value(make, change):
    one, other = make(), make()
    before = axis.comparable(one)
    assert before == axis.comparable(other)
    change(one)
    assert axis.comparable(one) != before
    change(other)
    assert axis.comparable(one) == axis.comparable(other)


class Scale:
    """A running scale of observations."""

    largest = 1.0


class ScalingModel(torch.nn.Module):
    """A linear policy and value of scaled observations."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(observation_shape[0], n) for n in (output_size, 1)
        )
        self.scale = Scale()

    def forward(self, observation, prev_action, prev_reward):
        pi, value = (layer(observation / self.scale.largest) for layer in self.layers)
        return torch.softmax(pi, -1), value.squeeze(-1)


class ScalingAgent(rlpyt.CategoricalMlpAgent):
    """An agent that updates the scale as it acts, after two batches."""

    ModelCls, fast_acting, n_steps = ScalingModel, False, 0

    def step(self, observation, prev_action, prev_reward):
        """Act, and note the largest observation."""
        self.n_steps += 1
        if self.n_steps > 32:
            scale = self.model.scale
            scale.largest = max(scale.largest, float(observation.abs().max()))
        return super().step(observation, prev_action, prev_reward)


def test_what_a_custom_agent_or_model_keeps_is_each_agents_own(tmp_path):
    agent = {"cls": f"{__name__}:ScalingAgent", "hidden_sizes": None}
    runs = [options_for("ppo", seed, steps=256, agent=agent) for seed in (3, 4)]
    assert_each_equals_its_own(tmp_path, runs)


class Interferes(Hook):
    """Clears the optimizer's state, or a part, or freezes a layer in the run with seed 4."""

    def __init__(self, what):
        self.what = what

    def on_iteration(self, runner, itr):
        """Do so after two iterations."""
        if itr == 1 and self.what == "clear":
            runner.algo.optimizer.state.clear()
        elif itr == 1 and self.what == "clear one":
            *_, last = runner.agent.parameters()
            runner.algo.optimizer.state[last] = {}
        elif itr == 1 and runner.seed == 4:
            next(runner.agent.parameters()).requires_grad_(False)


@pytest.mark.parametrize("what", ["clear", "clear one", "freeze"])
def test_a_hook_can_clear_moments_and_freeze_layers_of_one(tmp_path, what):
    seeds = (3, 4, 5) if what == "freeze" else (3, 4)  # two of them go on as a group
    runs = [options_for("ppo", seed, steps=256) for seed in seeds]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not depend on these parameters")
        assert_each_equals_its_own(tmp_path, runs, [Interferes(what)])


class Tallied(Cooled):
    """The same with a temperature that falls with the length of a list."""

    def __init__(self, observation_shape, output_size):
        super().__init__(observation_shape, output_size)
        self.passes, self.sums = [], np.zeros(1)

    def forward(self, observation, prev_action, prev_reward):
        if torch.is_grad_enabled():
            self.passes.append(None)
            self.sums += 1
        pi, value = (layer(observation) for layer in self.layers)
        logits = pi / (1 + 0.1 * len(self.passes) + float(self.sums[0]))
        return torch.softmax(logits, -1), value.squeeze(-1)


@pytest.mark.parametrize("cls,changed", [(Cooled, "temperature"), (Tallied, "passes, sums")])
def test_attributes_that_a_model_changes_are_each_agents_own(tmp_path, cls, changed):
    agent = {"model_cls": f"{__name__}:{cls.__name__}", "hidden_sizes": None}
    runs = [options_for("ppo", seed, steps=128, agent=agent) for seed in (3, 4)]
    with pytest.warns(UserWarning, match=f"changes the attribute {changed}"):
        assert_each_equals_its_own(tmp_path, runs)


class Warm(Cooled):
    """The same with a temperature that only a hook changes."""

    def forward(self, observation, prev_action, prev_reward):
        pi, value = (layer(observation) for layer in self.layers)
        return torch.softmax(pi / self.temperature, -1), value.squeeze(-1)


class CoolsOne(Hook):
    """Changes an attribute of the model in the run with seed 4."""

    def on_iteration(self, runner, itr):
        """Set the temperature."""
        if runner.seed == 4 and itr == 1:
            runner.agent.model.temperature = 0.1


def test_a_hook_can_change_an_attribute_of_one_model(tmp_path):
    agent = {"model_cls": f"{__name__}:Warm", "hidden_sizes": None}
    runs = [options_for("ppo", seed, steps=256, agent=agent) for seed in (3, 4)]
    assert_each_equals_its_own(tmp_path, runs, [CoolsOne()])


class QuietsOne(Hook):
    """Changes the noise of targets in the run with seed 4."""

    def on_iteration(self, runner, itr):
        """Set the standard deviation."""
        if runner.seed == 4 and itr == 200:
            runner.agent.set_target_noise(1.0)


def test_a_hook_can_change_the_noise_of_one_agent(tmp_path):
    runs = [options_for("td3", seed, steps=203) for seed in (3, 4)]
    assert_each_equals_its_own(tmp_path, runs, [QuietsOne()])


def test_an_error_of_all_in_a_step_is_the_one_that_is_shown(tmp_path, monkeypatch):
    def fail(*args):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(axis_step.StackedStep, "_clip", fail)
    runs = {tmp_path / f"seed_{s}": options_for("ppo", s, steps=128) for s in (3, 4)}
    with pytest.raises(PopulationError, match="(?s)seed_3: .*out of memory.*seed_4: .*out of mem"):
        train_population(runs)


class Tied(torch.nn.Module):
    """Hidden layers of which two have one weight in common."""

    output_size = 8

    def __init__(self, shape):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(n, 8) for n in (*shape, 8, 8))
        self.layers[2].weight = self.layers[1].weight

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def test_weights_that_two_layers_have_in_common_are_each_agents_own(tmp_path, recwarn):
    agent = {"model": {"encoder": f"{__name__}:Tied"}}
    runs = [options_for("dqn", seed, steps=260, agent=agent) for seed in (3, 4)]
    assert_each_equals_its_own(tmp_path, runs)
    assert not [w for w in recwarn if "one agent after the other" in str(w.message)]


class Scales(Hook):
    """Scales the gradients of the first parameter, and counts forward passes of its layer."""

    def __init__(self, counts):
        self.counts = counts

    def __deepcopy__(self, memo):
        return Scales(self.counts)

    def on_start(self, runner):
        """Register the hooks."""
        next(runner.agent.parameters()).register_hook(lambda gradient: 0.1 * gradient)
        linear = next(m for m in runner.agent.model.modules() if isinstance(m, torch.nn.Linear))
        linear.register_forward_hook(lambda *_: self.count(runner.seed))

    def count(self, seed):
        """Count a forward pass that has a gradient."""
        self.counts[seed] = self.counts.get(seed, 0) + torch.is_grad_enabled()


def test_hooks_of_modules_and_tensors_are_called_for_each_agent(tmp_path):
    counts = {}
    runs = [options_for("ppo-sgd", seed) for seed in (3, 4)]
    assert_each_equals_its_own(tmp_path, runs, [Scales(counts)])
    assert counts[3] == counts[4] > 20


class HalvesAfterSteps(Hook):
    """Halves the first parameter after each step of the optimizer."""

    def on_start(self, runner):
        """Register the hook."""
        algo = runner.algo
        optimizer = algo.optimizer or next(iter(algo.steps.values())).optimizer

        def halve(*_):
            with torch.no_grad():
                optimizer.param_groups[0]["params"][0].mul_(0.5)

        optimizer.register_step_post_hook(halve)


@pytest.mark.parametrize("pair", ["dqn", "crossq"])
def test_hooks_of_an_optimizers_steps_are_called_for_each_agent(tmp_path, pair):
    """Also beside our own, which keeps weights at length 1 in CrossQ."""
    runs = [options_for(pair, seed, algo={"optim_kwargs": {"eps": 0.1}}) for seed in (3, 4)]
    assert_each_equals_its_own(tmp_path, runs, [HalvesAfterSteps()])
