"""The train script that launch.py starts: ``launched.py SLOT_CODE LOG_DIR RUN_ID CONFIG_KEY``."""

import sys

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.variant import load_variant, update_config
from rlpyt.utils.logging.context import logger_context

CONFIGS = {"walk": dict(algo=dict(learning_rate=1e-4), sampler=dict(batch_T=5, batch_B=2))}


def build_and_train(slot_affinity_code, log_dir, run_ID, config_key):
    affinity = affinity_from_code(slot_affinity_code)
    config = update_config(CONFIGS[config_key], load_variant(log_dir))
    assert config["algo"]["learning_rate"] in (1e-3, 1e-2)
    runner = MinibatchRl(
        algo=A2C(**config["algo"]),
        agent=PolicyAgent(),
        sampler=SerialSampler(Walk, {}, max_decorrelation_steps=0, **config["sampler"]),
        n_steps=40,
        log_interval_steps=20,
        affinity=affinity,
    )
    with logger_context(log_dir, run_ID, "walk", config):
        runner.train()


if __name__ == "__main__":
    build_and_train(*sys.argv[1:])
