"""Messages of samplers, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import numpy as np
import pytest

from rlpyt.envs.toy import CountEnv
from rlpyt.samplers import step_checks
from rlpyt.samplers.layout import rows_per_worker
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.parts import EchoAgent
from tests.wording import check


def start(agent=EchoAgent, affinity=None, seed=0, **settings):
    parts = {"EnvCls": CountEnv, "env_kwargs": {}, "batch_T": 2, "batch_B": 2, **settings}
    SerialSampler(**parts).initialize(agent(), affinity=affinity, seed=seed)


MESSAGES = {
    "environment id": (
        TypeError,
        lambda: start(EnvCls="CartPole-v1"),
        (
            "EnvCls must be an environment class or a function that makes an environment, got "
            "'CartPole-v1'. Pass its arguments in env_kwargs."
        ),
    ),
    "factory": (
        TypeError,
        lambda: start(EnvCls=lambda: None),
        "<lambda> returned None instead of an environment (trying it out). Add a return statement.",
    ),
    "number of steps": (
        TypeError,
        lambda: start(batch_T=1.5),
        "batch_T=1.5 must be a whole number of at least 1.",
    ),
    "collector": (
        TypeError,
        lambda: start(CollectorCls=dict),
        (
            "CollectorCls must be a class with a method collect_batch, got <class 'dict'>. "
            "Derive it from rlpyt.samplers.collectors.DecorrelatingStartCollector."
        ),
    ),
    "evaluation": (
        ValueError,
        lambda: start(eval_n_envs=2),
        "eval_max_steps must be set with eval_n_envs: evaluation must end.",
    ),
    "agent": (
        TypeError,
        lambda: start(agent=dict),
        "agent={} must be an agent, such as CategoricalMlpAgent().",
    ),
    "seed": (
        ValueError,
        lambda: start(seed=-1),
        "seed=-1 must be at least 0.",
    ),
    "not initialized": (
        RuntimeError,
        lambda: SerialSampler(CountEnv, {}, 2, 2).obtain_samples(0),
        "the sampler must be initialized. Call initialize first.",
    ),
    "key of an affinity": (
        ValueError,
        lambda: start(affinity=dict(n_worker=2)),
        (
            "affinity has unknown keys ['n_worker']; known are ['all_cpus', 'alternating', "
            "'cpus', 'cuda_idx', 'master_cpus', 'master_torch_threads', 'n_workers', "
            "'set_affinity', 'torch_threads', 'worker_torch_threads', 'workers_cpus']."
        ),
    ),
    "environments per worker": (
        ValueError,
        lambda: rows_per_worker(10, 4, 1),
        (
            "batch_B=10 must be divisible among n_workers=4. Use batch_B=12 or batch_B=8, or "
            "affinity=dict(n_workers=2) (--sampler.n-workers 2)."
        ),
    ),
    "observation": (
        TypeError,
        lambda: step_checks.check_observation({"left": 0}, np.zeros((2, 3))),
        "observation is a dict, expected an array of shape (3,) and dtype float64.",
    ),
    "result of Gymnasium's reset": (
        TypeError,
        lambda: step_checks.check_observation((np.zeros(3), {}), np.zeros((2, 3))),
        (
            "observation is a pair with a dict, as Gymnasium's reset returns it, expected the "
            "observation alone. Wrap the environment in rlpyt.envs.gym.GymEnvWrapper."
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
