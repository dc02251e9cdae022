"""Runs whose environments and workers fail, and go on (on_fault)."""

import contextlib
import csv
import os
import signal

import numpy as np
import pytest

import rlpyt
from rlpyt.cli import status
from rlpyt.envs.toy import CountEnv, MaskEnv
from rlpyt.experiments.api import options_of
from rlpyt.runners.heartbeat import HeartbeatHook
from rlpyt.samplers.fault_policy import RESTART
from tests.faulty import FaultError, FaultyEnv

pytestmark = pytest.mark.usefixtures("nothing_left")

EVERY_40TH = dict(at=40, length=9, end="alternate")
CASES = {
    "ppo": dict(epochs=1, minibatches=1),
    "a2c-lstm": dict(memory="lstm"),
    "a2c": dict(normalize_reward=True, normalize_observation=True),
    "vtrace": {},
    "dqn": dict(prioritized_replay=True, n_step_return=3, min_steps_learn=64, replay_ratio=2),
    "r2d1": dict(min_steps_learn=64),
    "sac": dict(min_steps_learn=64, batch_size=16, replay_ratio=1),
}


def run(tmp_path, algo, steps=1024, env_args=EVERY_40TH, **settings):
    settings = (
        dict(
            steps=steps,
            env_args=dict(env_args),
            sampler=dict(kind="serial", batch_T=16, batch_B=4),
            on_fault=dict(env_error="restart_env", max_per_hour=1000),
            run_dir=tmp_path / "run",
            eval_episodes=0,
            video=False,
            log_interval_steps=256,
            seed=1,
        )
        | settings
    )
    return rlpyt.train(algo, settings.pop("env", FaultyEnv), **settings)


def rows_of(tmp_path):
    with open(tmp_path / "run" / "progress.csv") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_algorithm_trains_on_without_what_was_broken(name, tmp_path):
    run(tmp_path, name.partition("-")[0], **CASES[name])
    last = rows_of(tmp_path)[-1]
    assert 0 < float(last["Diagnostics/VoidSteps"]) < 1024 / 40 * 9
    losses = {k: float(v) for k, v in last.items() if "oss" in k and k.endswith("Average") and v}
    assert losses and np.isfinite(list(losses.values())).all(), losses


class FaultyMask(MaskEnv):
    """Raises in every 40th step; or its process ends in the 40th, in the first that gets there."""

    def __init__(self, tally=None):
        super().__init__()
        self.tally, self.n_steps = tally, 0

    def step(self, action):
        self.n_steps += 1
        if self.n_steps % 40 == 0:
            if self.tally is None:
                raise FaultError("told to fail")
            with contextlib.suppress(FileExistsError), open(self.tally, "x"):
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


@pytest.mark.parametrize("name", ["a2c-lstm", "dqn", "sac"])
def test_void_rows_need_no_valid_action(name, tmp_path):
    run(tmp_path, name.partition("-")[0], env=FaultyMask, env_args={}, **CASES[name])
    last = rows_of(tmp_path)[-1]
    assert float(last["Diagnostics/VoidSteps"]) > 0
    losses = {k: float(v) for k, v in last.items() if "oss" in k and k.endswith("Average") and v}
    assert losses and np.isfinite(list(losses.values())).all(), losses


@pytest.mark.parametrize("action", ["restart_worker", "drop_worker"])
def test_lost_workers_need_no_valid_action(action, tmp_path):
    settings = dict(env=FaultyMask, env_args=dict(tally=str(tmp_path / "tally")))
    settings["sampler"] = dict(kind="cpu", batch_T=16, batch_B=4, max_decorrelation_steps=0)
    run(tmp_path, "a2c", on_fault=dict(worker_death=action), **settings)
    last = rows_of(tmp_path)[-1]
    assert (float(last["Diagnostics/DroppedEnvs"]) == 2) == (action == "drop_worker")
    assert float(last["Diagnostics/VoidSteps"]) >= 2 * 16


def test_statistics_of_observations_and_rewards_leave_out_broken_episodes(tmp_path):
    seen = []

    class Watch(rlpyt.Hook):
        def on_iteration(self, runner, itr):
            env = runner.sampler.samples_np.env
            seen.append((env.observation[~env.void], env.void.sum()))
            self.obs_rms = runner.agent.model.obs_rms
            self.moments = runner.algo.reward_normalizer.moments

    watch = Watch()
    run(tmp_path, "a2c", normalize_observation=True, normalize_reward=True, hooks=[watch])
    observations = np.concatenate([part for part, _ in seen])
    assert 0 < sum(void for _, void in seen) == 1024 - len(observations)
    assert float(watch.obs_rms.count) == len(observations) == float(watch.moments.count)
    assert np.allclose(watch.obs_rms.mean.numpy(), observations.mean(0), rtol=1e-4)


def test_after_too_many_faults_the_first_is_raised(tmp_path):
    with pytest.raises(FaultError, match="call 40") as caught:
        run(tmp_path, "a2c", on_fault=dict(env_error="restart_env", max_per_hour=3))
    assert "first of 4 faults; on_fault heals max_per_hour=3" in str(caught.value.__notes__)
    fault = status.run_status(tmp_path / "run")["last_fault"]
    assert fault.endswith(" | failed: FaultError: told to fail in step, call 40"), fault


class NoMoreResets(CountEnv):
    """Fails in every reset from the 30th of all instances on."""

    n_resets = 0

    def reset(self):
        type(self).n_resets += 1
        if self.n_resets >= 30:
            raise FaultError(f"reset {self.n_resets}")
        return super().reset()


def test_an_environment_that_always_fails_at_once_ends_the_run(tmp_path):
    policy = dict(env_error="restart_env", backoff_s=0.001)
    with pytest.raises(FaultError, match="reset 30") as caught:
        run(tmp_path, "a2c", env_args={}, on_fault=policy, env=NoMoreResets)
    assert "heals at most 5 in a row" in str(caught.value.__notes__)


def test_the_status_of_a_run_has_its_processes_and_what_was_healed(tmp_path, capsys):
    seen = []

    class Look(rlpyt.Hook):
        def on_iteration(self, runner, itr):
            if itr == 12:
                (heartbeat,) = (x for x in runner.hooks if isinstance(x, HeartbeatHook))
                heartbeat.heartbeat.write()
                capsys.readouterr()
                status.main([str(tmp_path / "run")])
                seen.append(capsys.readouterr().out)

    sampler = dict(kind="cpu", batch_T=16, batch_B=4)
    run(tmp_path, "a2c", sampler=sampler, hooks=[Look()])
    title, fault, _, columns, training, *others = seen[0].splitlines()
    assert fault.startswith("last fault: ") and "told to fail in step, call 40" in fault
    assert "a2c on " in title and "of 1,024 steps" in title and " void steps · process " in title
    assert columns.split() == ["process", "pid", "state", "core", "memory", "age", "doing"]
    assert training.split()[:3] == ["training", str(os.getpid()), "running"]
    assert {"worker 0", "worker 1"} <= {line[:8] for line in others}
    assert "logging, iteration 12" in training
    assert sum("between batches with environments " in line for line in others) == 2
    capsys.readouterr()
    status.main([str(tmp_path / "run")])
    assert capsys.readouterr().out.splitlines()[0].endswith("complete")
    assert not [*(tmp_path / "run").glob("heartbeat*")]


@pytest.mark.parametrize("given", [None, "raise", "restart", RESTART])
def test_on_fault_in_python_is_a_word_or_a_policy(given):
    options = options_of("a2c", "CartPole-v1", on_fault=given)
    assert options.on_fault.heals == (given not in (None, "raise"))


def test_another_value_of_on_fault_is_refused():
    with pytest.raises(ValueError, match='on_fault must be None, "restart".*got 3'):
        options_of("a2c", "CartPole-v1", on_fault=3)


def test_the_log_has_the_faults_of_asynchronous_samplers(tmp_path):
    sampler = dict(kind="cpu", batch_T=16, batch_B=4, asynchronous=True)
    run(tmp_path, "vtrace", sampler=sampler)
    healed = (tmp_path / "run" / "debug.log").read_text().count("healed (on_fault): ")
    assert healed == float(rows_of(tmp_path)[-1]["Diagnostics/EnvRestarts"]) > 20


class StopEarly(rlpyt.Hook):
    def on_iteration(self, runner, itr):
        if itr == 3:
            self.restarts = [env.restarts for env in envs_of(runner)]
            runner.request_stop()


class Restarts(rlpyt.Hook):
    def on_start(self, runner):
        self.found = [env.restarts for env in envs_of(runner)]


def envs_of(runner):
    return runner.sampler._env_worker._healing


@pytest.mark.parametrize("before, after", [("raise", "restart_env"), ("restart_env", "raise")])
def test_a_run_is_resumed_with_another_policy(tmp_path, before, after):
    """Without a fault the policy changes nothing, so the run equals one that was not stopped."""
    settings = dict(env="CartPole-v1", env_args={}, steps=512)
    run(tmp_path, "a2c", on_fault={"env_error": before}, hooks=[StopEarly()], **settings)
    resumed = run(tmp_path, "a2c", on_fault={"env_error": after}, resume=True, **settings)
    whole = run(tmp_path, "a2c", run_dir=tmp_path / "whole", on_fault={}, **settings)
    one, other = (x.agent.state_dict() for x in (resumed, whole))
    assert all(one[name].equal(other[name]) for name in other)


def test_a_resumed_run_goes_on_counting_restarts(tmp_path):
    """Else restarted environments would repeat the random streams of earlier ones."""
    early, late = StopEarly(), Restarts()
    run(tmp_path, "a2c", hooks=[early])
    run(tmp_path, "a2c", hooks=[late], resume=True)
    assert late.found == early.restarts and any(early.restarts)
    columns = (
        [float(row[f"Diagnostics/{name}"]) for row in rows_of(tmp_path)]
        for name in ("EnvRestarts", "VoidSteps")
    )
    assert all(column == sorted(set(column)) for column in columns)


def test_lives_of_workers_are_counted_over_a_resume(tmp_path):
    """Else a new life would have the random stream of an earlier one."""

    class KillWorker(rlpyt.Hook):
        def on_iteration(self, runner, itr):
            faults = runner.sampler._worker_faults
            if itr == 2:
                os.kill(runner.sampler._worker_group.processes[0].pid, 9)
            if itr == 5:
                self.lives = faults.lives
                runner.request_stop()

    class Lives(rlpyt.Hook):
        def on_start(self, runner):
            self.lives = runner.sampler._worker_faults.lives

    settings = dict(env="CartPole-v1", env_args={}, on_fault="restart")
    settings["sampler"] = dict(kind="cpu", batch_T=16, batch_B=4)
    first, second = KillWorker(), Lives()
    run(tmp_path, "a2c", hooks=[first], **settings)
    run(tmp_path, "a2c", hooks=[second], resume=True, **settings)
    assert first.lives == second.lives == 1
    assert {float(row["Diagnostics/WorkerRestarts"]) for row in rows_of(tmp_path)[1:]} == {1}
